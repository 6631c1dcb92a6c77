#include "model/checkpoint/gguf_keys.h"

#include <cmath>

#include "runtime/error.h"

namespace trireme {
namespace {

/// Keys of the family: add("block_count", 12) is "llama.block_count".
class FamilyKeys {
  public:
    FamilyKeys(GgufEntries& to, const Architecture& family) : to_(to), family_(family) {}
    void integer(std::string_view name, int64_t value) { to_.u32(key(name), static_cast<uint32_t>(value)); }
    void number(std::string_view name, double value) { to_.f32(key(name), static_cast<float>(value)); }
    void text(std::string_view name, std::string_view value) { to_.string(key(name), value); }

  private:
    std::string key(std::string_view name) const { return fmt::format("{}.{}", family_.gguf, name); }
    GgufEntries& to_;
    const Architecture& family_;
};

template <class... Args>
void require_in_gguf(bool can, fmt::format_string<std::type_identity_t<Args>...> what, Args&&... args) {
    require(can, Exit::kUsage, "a GGUF file cannot state {}; want -o NAME.h5 or a folder",
            fmt::format(what, std::forward<Args>(args)...));
}

/// The length before scaling.
int64_t trained_context(const LlamaConfig& c) {
    const bool stretched = c.rope.scaling == RopeScaling::kLinear || c.rope.scaling == RopeScaling::kYarn;
    return stretched ? c.rope.original_context : c.context;
}

void add_rope(FamilyKeys& keys, const LlamaConfig& c) {
    const RopeConfig& r = c.rope;
    keys.number("rope.freq_base", r.theta);
    keys.integer("rope.dimension_count", r.dim(c.head_dim));
    switch (r.scaling) {
        case RopeScaling::kNone:
        case RopeScaling::kLlama3:  // divisors of frequencies are a tensor
            return;
        case RopeScaling::kLinear:
            keys.text("rope.scaling.type", "linear");
            return keys.number("rope.scaling.factor", r.factor);
        case RopeScaling::kLongrope:
            keys.integer("rope.scaling.original_context_length", r.original_context);
            return keys.number("rope.scaling.attn_factor", r.attention_factor);
        case RopeScaling::kYarn: {
            require_in_gguf(r.truncate, "YaRN with 'truncate' false");
            keys.text("rope.scaling.type", "yarn");
            keys.number("rope.scaling.factor", r.factor);
            keys.integer("rope.scaling.original_context_length", r.original_context);
            if (r.beta_fast != 32) keys.number("rope.scaling.yarn_beta_fast", r.beta_fast);
            if (r.beta_slow != 1) keys.number("rope.scaling.yarn_beta_slow", r.beta_slow);
            // There it multiplies YaRN's own factor; in config.json it replaces it.
            const double own = r.factor <= 1 ? 1.0 : 0.1 * std::log(r.factor) + 1.0;
            if (r.attention_factor != 0) keys.number("rope.scaling.attn_factor", r.attention_factor / own);
            return;
        }
        case RopeScaling::kDynamic:
            break;
    }
    require_in_gguf(false, "rope type '{}'", name_of(r.scaling));
}

}  // namespace

const Architecture& gguf_family(const LlamaConfig& c) {
    return c.family->gguf.empty() ? architectures().front() : *c.family;
}

GgufEntries gguf_keys(const LlamaConfig& c) {
    const Architecture& family = gguf_family(c);
    bool windows = false;
    for (LayerIndex l; l.i < c.n_layers; ++l) windows = windows || c.layer_map.windowed(l);
    require_in_gguf(c.layer_map.is_identity(), "which layers read the keys and values of others");
    require_in_gguf(!windows || family.windows == Windows::kAll, "the sliding windows of {}", c.family->model_type);
    require_in_gguf(!c.no_diagonal, "that no token sees itself ('force_nodiag')");

    GgufEntries entries;
    entries.string("general.architecture", family.gguf);
    entries.string("general.type", "model");
    if (!c.name.empty()) entries.string("general.name", c.name);
    FamilyKeys keys(entries, family);
    keys.integer("block_count", c.n_layers);
    keys.integer("context_length", trained_context(c));
    keys.integer("embedding_length", c.dim);
    keys.integer("feed_forward_length", c.ffn_dim);
    keys.integer("attention.head_count", c.n_heads);
    keys.integer("attention.head_count_kv", c.n_kv_heads);
    if (c.head_dim * c.n_heads != c.dim) {
        keys.integer("attention.key_length", c.head_dim);
        keys.integer("attention.value_length", c.head_dim);
    }
    keys.number("attention.layer_norm_rms_epsilon", c.norm_eps);
    // llama.cpp requires the key for this family.
    if (family.windows == Windows::kAll) keys.integer("attention.sliding_window", windows ? c.sliding_window : 0);
    keys.integer("vocab_size", c.vocab);
    add_rope(keys, c);
    return entries;
}

std::vector<GgufFactors> gguf_factors(const LlamaConfig& c) {
    const RopeConfig& r = c.rope;
    if (r.scaling == RopeScaling::kLongrope) {
        return {{"rope_factors_long.weight", r.long_factors}, {"rope_factors_short.weight", r.short_factors}};
    }
    if (r.scaling == RopeScaling::kLlama3) {
        RopeConfig plain = r;
        plain.scaling = RopeScaling::kNone;
        std::vector<float> factors = rope_table(plain, c.head_dim, 1).inv_freq;
        const std::vector<float> scaled = rope_table(r, c.head_dim, 1).inv_freq;
        for (size_t i = 0; i < factors.size(); ++i) factors[i] /= scaled[i];
        return {{"rope_freqs.weight", factors}};
    }
    if (!r.factors.empty()) return {{"rope_freqs.weight", r.factors}};
    return {};
}

}  // namespace trireme
