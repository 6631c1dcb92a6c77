#include <algorithm>
#include <cmath>
#include <tuple>

#include "model/checkpoint/gguf_model.h"
#include "model/files/limits.h"
#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr const char* kEos[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                "tokenizer.ggml.eom_token_id"};

/// The keys of a file's architecture: key("block_count") is "llama.block_count".
class ArchKeys {
  public:
    explicit ArchKeys(const GgufMetadata& m)
        : m_(m), family_(gguf_architecture(m.required_string("general.architecture"), m.what())) {}

    const Architecture& family() const { return family_; }
    const std::string& what() const { return m_.what(); }
    std::string key(std::string_view name) const { return fmt::format("{}.{}", family_.gguf, name); }
    bool has(std::string_view name) const { return m_.has(key(name)); }
    std::optional<int64_t> integer(std::string_view name) const { return m_.integer(key(name)); }
    std::optional<double> number(std::string_view name) const { return m_.number(key(name)); }
    int64_t required_integer(std::string_view name) const { return m_.required_integer(key(name)); }
    const GgufMetadata& all() const { return m_; }

  private:
    const GgufMetadata& m_;
    const Architecture& family_;
};

/// Refuses settings that would change the result and are not implemented.
void refuse_variants(const ArchKeys& m) {
    const int64_t experts = m.integer("expert_count").value_or(0);
    require(experts == 0, Exit::kData, "{}: a mixture of {} experts; only dense models are supported", m.what(),
            experts);
    require(m.all().boolean(m.key("attention.causal")).value_or(true), Exit::kData,
            "{}: attention is not causal; only causal models are supported", m.what());
    for (const char* name :
         {"logit_scale", "embedding_scale", "residual_scale", "attention.scale", "attention.clamp_kqv"}) {
        require(!m.has(name), Exit::kData, "{}: '{}' is set; it is not supported", m.what(), m.key(name));
    }
}

RopeScaling scaling_type(const ArchKeys& m) {
    const bool old_linear = m.has("rope.scale_linear");  // the key of files older than rope.scaling.type
    const std::string type = m.all().string(m.key("rope.scaling.type")).value_or(old_linear ? "linear" : "none");
    if (type == "none") return RopeScaling::kNone;
    if (m.family().partial_rotary) {  // longrope, if the file has its tensors
        require(type == "longrope", Exit::kData, "{}: rope type '{}'; known for {}: none, longrope", m.what(),
                shown(type), m.family().gguf);
        return RopeScaling::kNone;
    }
    if (type == "linear") return RopeScaling::kLinear;
    if (type == "yarn") return RopeScaling::kYarn;
    fail(Exit::kData, "{}: unknown rope type '{}'; known: none, linear, yarn", m.what(), shown(type));
}

/// `context` on entry: the file's. On exit: the context with scaling.
RopeConfig rope_config(const ArchKeys& m, int64_t head_dim, int64_t& context) {
    RopeConfig r;
    r.theta = m.number("rope.freq_base").value_or(10000);
    r.rotary_dim = m.integer("rope.dimension_count").value_or(head_dim);
    const bool partial = m.family().partial_rotary && r.rotary_dim >= 4 && r.rotary_dim < head_dim;
    require((r.rotary_dim == head_dim || partial) && r.rotary_dim % 2 == 0, Exit::kData,
            "{}: {} of {} elements of a head are rotated; only all are supported", m.what(), r.rotary_dim, head_dim);
    r.scaling = scaling_type(m);
    r.original_context = context;
    if (m.family().partial_rotary) {
        r.original_context = m.integer("rope.scaling.original_context_length").value_or(context);
        r.attention_factor = m.number("rope.scaling.attn_factor").value_or(0);
    }
    if (r.scaling == RopeScaling::kNone) return r;

    const double factor = m.has("rope.scaling.factor") ? m.number("rope.scaling.factor").value_or(1)
                                                       : m.number("rope.scale_linear").value_or(1);
    r.factor = factor == 0 ? 1 : factor;  // in files, 0 means none
    if (r.scaling == RopeScaling::kYarn) {
        r.original_context = m.integer("rope.scaling.original_context_length").value_or(context);
        r.beta_fast = m.number("rope.scaling.yarn_beta_fast").value_or(32);
        r.beta_slow = m.number("rope.scaling.yarn_beta_slow").value_or(1);
        const char* key =
            m.has("rope.scaling.yarn_attn_factor") ? "rope.scaling.yarn_attn_factor" : "rope.scaling.attn_factor";
        // In GGUF this factor multiplies YaRN's own; in config.json it replaces it.
        if (const auto on_top = m.number(key); on_top && *on_top != 1) {
            r.attention_factor = *on_top * (r.factor <= 1 ? 1.0 : 0.1 * std::log(r.factor) + 1.0);
        }
    }
    const double reach = static_cast<double>(r.original_context) * r.factor;
    require(reach <= static_cast<double>(limits::kContext), Exit::kData,
            "{}: {} tokens stretched {} times; at most {} are supported", m.what(), r.original_context, r.factor,
            limits::kContext);
    context = std::max(context, static_cast<int64_t>(reach));
    return r;
}

int32_t token_id(const GgufMetadata& m, const char* key, int64_t vocab) {
    const int64_t id = m.integer(key).value_or(-1);
    if (id >= -1 && id < vocab) return static_cast<int32_t>(id);
    log::warn("{}: '{}' is {}, which is no id of the vocabulary of {}; it is ignored", m.what(), key, id, vocab);
    return -1;
}

int64_t vocabulary(const GgufFile& file, const ArchKeys& keys) {
    const GgufMetadata& m = file.metadata;
    if (const size_t tokens = m.array_size("tokenizer.ggml.tokens")) return static_cast<int64_t>(tokens);
    if (const auto size = keys.integer("vocab_size")) return *size;
    for (const GgufTensor& t : file.tensors) {
        if (t.name == "token_embd.weight") return static_cast<int64_t>(t.dims.front());
    }
    fail(Exit::kData, "{}: neither a tokenizer nor '{}' says how many tokens there are", m.what(),
         keys.key("vocab_size"));
}

}  // namespace

LlamaConfig gguf_config(const GgufFile& file) {
    const GgufMetadata& m = file.metadata;
    const ArchKeys keys(m);
    refuse_variants(keys);
    LlamaConfig c;
    c.family = &keys.family();
    c.name = m.string("general.name").value_or("");
    c.n_layers = keys.required_integer("block_count");
    c.dim = keys.required_integer("embedding_length");
    c.ffn_dim = keys.required_integer("feed_forward_length");
    c.n_heads = keys.required_integer("attention.head_count");
    c.n_kv_heads = keys.integer("attention.head_count_kv").value_or(c.n_heads);
    c.context = keys.required_integer("context_length");
    c.norm_eps = keys.number("attention.layer_norm_rms_epsilon").value_or(1e-6);
    c.vocab = vocabulary(file, keys);
    // These are checked before anything is divided or sized by them; validate() checks the rest.
    const std::tuple<int64_t, int64_t, const char*> ranges[] = {{c.n_layers, limits::kLayers, "block_count"},
                                                                {c.n_heads, limits::kHeads, "attention.head_count"},
                                                                {c.context, limits::kContext, "context_length"}};
    for (const auto& [value, most, name] : ranges) {
        require(value >= 1 && value <= most, Exit::kData, "{}: '{}' is {}; between 1 and {} is supported", m.what(),
                keys.key(name), value, most);
    }

    const auto key_length = keys.integer("attention.key_length");
    require(key_length || c.dim % c.n_heads == 0, Exit::kData,
            "{}: an embedding of {} is no multiple of {} heads and there is no '{}'", m.what(), c.dim, c.n_heads,
            keys.key("attention.key_length"));
    c.head_dim = key_length.value_or(c.dim / c.n_heads);
    const int64_t values = keys.integer("attention.value_length").value_or(c.head_dim);
    require(values == c.head_dim, Exit::kData, "{}: keys of {} and values of {}; only equal numbers are supported",
            m.what(), c.head_dim, values);

    c.rope = rope_config(keys, c.head_dim, c.context);
    c.layer_map = LayerMap::identity(c.n_layers);
    const int64_t window = keys.integer("attention.sliding_window").value_or(0);
    if (window != 0 && window < c.context) {
        require(c.family->windows == Windows::kAll && window > 0, Exit::kData,
                "{}: a sliding window of {}; {} has full attention only", m.what(), window, c.family->gguf);
        c.sliding_window = window;
        c.layer_map = LayerMap::identity(std::vector<bool>(static_cast<size_t>(c.n_layers), true));
    }
    for (const char* key : kEos) {
        const int32_t id = token_id(m, key, c.vocab);
        if (id >= 0 && std::find(c.eos.begin(), c.eos.end(), id) == c.eos.end()) c.eos.push_back(id);
    }
    c.bos = token_id(m, "tokenizer.ggml.bos_token_id", c.vocab);
    const auto there = [&](std::string_view name) {
        return std::ranges::find(file.tensors, name, &GgufTensor::name) != file.tensors.end();
    };
    c.tied_embeddings = !there("output.weight");
    // No key states whether a family's optional biases are there.
    c.o_bias = c.family->biases == Biases::kIfSet && there("blk.0.attn_output.bias");
    c.qkv_bias = c.family->biases == Biases::kQkv || c.o_bias;
    validate(c, m.what());
    return c;
}

}  // namespace trireme
