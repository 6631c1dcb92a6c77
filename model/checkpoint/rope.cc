#include "model/checkpoint/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

/// w[i] = base^(2i / dim), in float as torch computes it.
void wavelengths(double base, int64_t head_dim, std::vector<float>& w) {
    w.resize(static_cast<size_t>(head_dim / 2));
    for (size_t i = 0; i < w.size(); ++i) {
        w[i] = std::pow(static_cast<float>(base), static_cast<float>(2 * i) / static_cast<float>(head_dim));
    }
}

/// theta' = theta * (s L / C - (s - 1))^(d / (d - 2)), L the length, C the trained one; theta itself for L <= C.
double dynamic_base(const RopeConfig& r, int64_t head_dim, int64_t length) {
    if (length <= r.original_context) return r.theta;
    const float reach =
        static_cast<float>(r.factor) * static_cast<float>(length) / static_cast<float>(r.original_context);
    const double power = static_cast<double>(head_dim) / static_cast<double>(head_dim - 2);
    return static_cast<float>(r.theta) * std::pow(reach - static_cast<float>(r.factor - 1), static_cast<float>(power));
}

/// NTK by parts: fast pairs are unchanged, slow pairs are interpolated, with a ramp between.
void yarn(const RopeConfig& r, int64_t head_dim, std::vector<float>& f) {
    const auto pair_of = [&](double rotations) {
        const double context = static_cast<double>(r.original_context);
        return static_cast<double>(head_dim) * std::log(context / (rotations * 2 * std::numbers::pi)) /
               (2 * std::log(r.theta));
    };
    double low = pair_of(r.beta_fast), high = pair_of(r.beta_slow);
    if (r.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(head_dim - 1));
    if (low == high) high += 0.001;

    wavelengths(r.theta, head_dim, f);
    for (size_t i = 0; i < f.size(); ++i) {
        const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
        const float keep = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
        const float interpolated = 1.0f / (static_cast<float>(r.factor) * f[i]), extrapolated = 1.0f / f[i];
        f[i] = interpolated * (1.0f - keep) + extrapolated * keep;
    }
}

/// Long waves are interpolated, short ones are unchanged, those between are blended.
void llama3(std::vector<float>& inv_freq, const RopeConfig& r) {
    const double context = static_cast<double>(r.original_context);
    const auto longest = static_cast<float>(context / r.low_freq_factor);
    const auto shortest = static_cast<float>(context / r.high_freq_factor);
    const auto factor = static_cast<float>(r.factor);
    for (float& f : inv_freq) {
        const float wave = static_cast<float>(2 * std::numbers::pi) / f;
        if (wave > longest) {
            f /= factor;
        } else if (!(wave < shortest)) {
            const float smooth = (static_cast<float>(context) / wave - static_cast<float>(r.low_freq_factor)) /
                                 static_cast<float>(r.high_freq_factor - r.low_freq_factor);
            f = (1.0f - smooth) * f / factor + smooth * f;
        }
    }
}

}  // namespace

double longrope_scale(double factor, int64_t original_context) {
    return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original_context)));
}

void rope_table(const RopeConfig& rope, int64_t whole_head, int64_t length, RopeTable& table) {
    const int64_t head_dim = rope.dim(whole_head);
    check(head_dim >= 4 && head_dim % 2 == 0, "rope: {} rotated elements", head_dim);
    table.attention_scale = 1;
    if (rope.scaling == RopeScaling::kYarn) {
        yarn(rope, head_dim, table.inv_freq);
        table.attention_scale = static_cast<float>(rope.attention_factor > 0
                                                       ? rope.attention_factor
                                                       : (rope.factor <= 1 ? 1.0 : 0.1 * std::log(rope.factor) + 1.0));
    } else {
        const double base = rope.scaling == RopeScaling::kDynamic ? dynamic_base(rope, head_dim, length) : rope.theta;
        wavelengths(base, head_dim, table.inv_freq);
        for (float& f : table.inv_freq) f = 1.0f / f;
        if (rope.scaling == RopeScaling::kLinear) {
            for (float& f : table.inv_freq) f /= static_cast<float>(rope.factor);
        }
        if (rope.scaling == RopeScaling::kLlama3) llama3(table.inv_freq, rope);
    }
    if (rope.scaling == RopeScaling::kLongrope) {
        wavelengths(rope.theta, head_dim, table.inv_freq);
        for (size_t i = 0; i < table.inv_freq.size(); ++i)
            table.inv_freq[i] = 1.0f / (rope.factors[i] * table.inv_freq[i]);
        table.attention_scale = static_cast<float>(rope.attention_factor);
        return;
    }
    for (size_t i = 0; i < rope.factors.size(); ++i) table.inv_freq[i] /= rope.factors[i];
}

RopeTable rope_table(const RopeConfig& rope, int64_t head_dim, int64_t length) {
    RopeTable table;
    rope_table(rope, head_dim, length, table);
    return table;
}

std::string_view name_of(RopeScaling scaling) {
    constexpr std::string_view names[] = {"none", "linear", "dynamic", "yarn", "llama3", "longrope"};
    return names[index(scaling)];
}

Rope::Rope(const RopeConfig& config, int64_t head_dim) : config_(config), head_dim_(head_dim) {
    table_ = rope_table(config_, head_dim_, /*length=*/1);
}

void Rope::fill(std::span<float> out, int64_t position, int64_t length) {
    if (config_.scaling == RopeScaling::kDynamic && length != table_length_) {
        rope_table(config_, head_dim_, length, table_);
        table_length_ = length;
    }
    rotate(out, position, table_.attention_scale);
}

void Rope::turn(std::span<float> out, int64_t positions) {
    rotate(out, positions, 1);
}

void Rope::rotate(std::span<float> out, int64_t position, float scale) const {
    const size_t pairs = out.size() / 2, rotated = table_.inv_freq.size();
    for (size_t i = rotated; i < pairs; ++i) {
        out[i] = 1;
        out[pairs + i] = 0;
    }
    for (size_t i = 0; i < rotated; ++i) {
        const float angle = static_cast<float>(position) * table_.inv_freq[i];
        out[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * scale;
        out[pairs + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * scale;
    }
}

}  // namespace trireme
