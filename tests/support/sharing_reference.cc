#include "tests/support/sharing_reference.h"

#include <algorithm>
#include <cmath>

namespace trireme::test {
namespace {

using Rows = SharingReference::Rows;

Rows read_tensor(const WeightSource& source, const std::string& name) {
    const Shape& shape = source.info(name).shape;
    const int64_t rows = shape.rank() == 1 ? 1 : shape[0], cols = shape.rank() == 1 ? shape[0] : shape[1];
    std::vector<float> all(static_cast<size_t>(rows * cols));
    source.read(name, 0, 0, HostTensor(all.data(), DType::kF32, shape));
    Rows out;
    for (int64_t r = 0; r < rows; ++r) out.emplace_back(all.begin() + r * cols, all.begin() + (r + 1) * cols);
    return out;
}

std::vector<double> product(const Rows& w, const std::vector<double>& x) {
    std::vector<double> y;
    for (const std::vector<double>& row : w) {
        double sum = 0;
        for (size_t i = 0; i < x.size(); ++i) sum += row[i] * x[i];
        y.push_back(sum);
    }
    return y;
}

std::vector<double> normed(const std::vector<double>& x, const Rows& weight, double eps) {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
    std::vector<double> y;
    for (size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * scale * weight[0][i]);
    return y;
}

void add(std::vector<double>& x, const std::vector<double>& y) {
    for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

}  // namespace

SharingReference::SharingReference(const WeightSource& source)
    : config_(source.config()),
      embedding_(read_tensor(source, "model.embed_tokens.weight")),
      norm_(read_tensor(source, "model.norm.weight")),
      head_(config_.tied_embeddings ? embedding_ : read_tensor(source, "lm_head.weight")) {
    for (int64_t l = 0; l < config_.n_layers; ++l) {
        const auto tensor = [&](const char* name) {
            return read_tensor(source, fmt::format("model.layers.{}.{}.weight", l, name));
        };
        const bool owner = config_.layer_map.owns(LayerIndex(l));
        layers_.push_back({.attn_norm = tensor("input_layernorm"),
                           .q = tensor("self_attn.q_proj"),
                           .k = owner ? tensor("self_attn.k_proj") : Rows(),
                           .v = owner ? tensor("self_attn.v_proj") : Rows(),
                           .o = tensor("self_attn.o_proj"),
                           .ffn_norm = tensor("post_attention_layernorm"),
                           .gate = tensor("mlp.gate_proj"),
                           .up = tensor("mlp.up_proj"),
                           .down = tensor("mlp.down_proj"),
                           .keys = {},
                           .values = {}});
    }
}

std::vector<double> SharingReference::rotated(std::vector<double> heads, int64_t position) const {
    const auto dim = static_cast<size_t>(config_.head_dim), half = dim / 2;
    for (size_t h = 0; h < heads.size(); h += dim) {
        for (size_t i = 0; i < half; ++i) {
            const double angle = static_cast<double>(position) *
                                 std::pow(config_.rope.theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
            const double a = heads[h + i], b = heads[h + i + half];
            heads[h + i] = a * std::cos(angle) - b * std::sin(angle);
            heads[h + i + half] = b * std::cos(angle) + a * std::sin(angle);
        }
    }
    return heads;
}

// Computes the chunk's keys and values from the residual streams that enter the layer.
void SharingReference::write(int64_t layer, const Rows& x) {
    Layer& w = layers_[static_cast<size_t>(layer)];
    w.keys.resize(static_cast<size_t>(before_));
    w.values.resize(static_cast<size_t>(before_));
    for (size_t i = 0; i < x.size(); ++i) {
        const std::vector<double> h = normed(x[i], w.attn_norm, config_.norm_eps);
        w.keys.push_back(rotated(product(w.k, h), before_ + static_cast<int64_t>(i)));
        w.values.push_back(product(w.v, h));
    }
}

void SharingReference::compute(int64_t layer, Rows& x) {
    const LayerIndex l(layer);
    const LayerMap& map = config_.layer_map;
    if (map.owns(l)) write(layer, x);
    const Layer& w = layers_[static_cast<size_t>(layer)];
    const Layer& from = layers_[map.source(l).at()];
    const bool strict = config_.no_diagonal || map.source(l) > l;
    const auto dim = static_cast<size_t>(config_.head_dim);
    const auto group = static_cast<size_t>(config_.n_heads / config_.n_kv_heads);
    for (size_t i = 0; i < x.size(); ++i) {
        const int64_t own = before_ + static_cast<int64_t>(i), end = strict ? own : own + 1;
        const int64_t begin = map.windowed(l) ? std::max<int64_t>(0, own + 1 - config_.sliding_window) : 0;
        const std::vector<double> q = rotated(product(w.q, normed(x[i], w.attn_norm, config_.norm_eps)), own);
        std::vector<double> attention(q.size(), 0.0);
        for (size_t h = 0; h < static_cast<size_t>(config_.n_heads) && begin < end; ++h) {
            std::vector<double> scores;
            for (int64_t j = begin; j < end; ++j) {
                double score = 0;
                const double* key = from.keys[static_cast<size_t>(j)].data() + h / group * dim;
                for (size_t d = 0; d < dim; ++d) score += q[h * dim + d] * key[d];
                scores.push_back(score / std::sqrt(static_cast<double>(dim)));
            }
            const double top = *std::ranges::max_element(scores);
            double sum = 0;
            for (double& s : scores) sum += s = std::exp(s - top);
            for (int64_t j = begin; j < end; ++j) {
                const double* value = from.values[static_cast<size_t>(j)].data() + h / group * dim;
                const double weight = scores[static_cast<size_t>(j - begin)] / sum;
                for (size_t d = 0; d < dim; ++d) attention[h * dim + d] += weight * value[d];
            }
        }
        add(x[i], product(w.o, attention));
        const std::vector<double> h = normed(x[i], w.ffn_norm, config_.norm_eps);
        std::vector<double> gate = product(w.gate, h);
        const std::vector<double> up = product(w.up, h);
        for (size_t k = 0; k < gate.size(); ++k) gate[k] = gate[k] / (1 + std::exp(-gate[k])) * up[k];
        add(x[i], product(w.down, gate));
    }
}

Rows SharingReference::read(std::span<const int32_t> tokens, int64_t passes) {
    const std::vector<double> nothing(static_cast<size_t>(config_.n_kv_heads * config_.head_dim), 0.0);
    Rows x;
    for (const int32_t t : tokens) x.push_back(embedding_[static_cast<size_t>(t)]);
    const auto source = [&](int64_t l) { return config_.layer_map.source(LayerIndex(l)).i; };
    for (int64_t first = 0, end = 0; first < config_.n_layers; first = end) {
        end = first + 1;
        if (source(first) <= first) {
            compute(first, x);
            continue;
        }
        for (int64_t l = first; l < end; ++l) end = std::max(end, source(l) + 1);
        for (int64_t l = first; l < end; ++l) {
            if (!config_.layer_map.owns(LayerIndex(l))) continue;
            Layer& w = layers_[static_cast<size_t>(l)];
            w.keys.resize(static_cast<size_t>(before_) + tokens.size(), nothing);
            w.values.resize(static_cast<size_t>(before_) + tokens.size(), nothing);
        }
        const Rows input = x;
        for (int64_t pass = 0; pass < passes; ++pass) {
            x = input;
            for (int64_t l = first; l < end; ++l) compute(l, x);
        }
    }
    before_ += static_cast<int64_t>(tokens.size());
    Rows logits;
    for (const std::vector<double>& row : x) logits.push_back(product(head_, normed(row, norm_, config_.norm_eps)));
    return logits;
}

Rows SharingReference::decode(std::span<const int32_t> tokens) {
    Rows all;
    for (const int32_t t : tokens) all.push_back(read({&t, 1}, 1).at(0));
    return all;
}

}  // namespace trireme::test
