#include <algorithm>
#include <cmath>
#include <tuple>

#include "model/files/gguf_model.h"
#include "model/files/limits.h"
#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr const char* kEos[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                "tokenizer.ggml.eom_token_id"};

/// Refuses settings that would change the result and are not implemented.
void refuse_variants(const GgufMetadata& m) {
    const std::string arch = m.required_string("general.architecture");
    require(arch == "llama", Exit::kData, "{}: the architecture is '{}'; supported: llama", m.what(), shown(arch));
    const int64_t experts = m.integer("llama.expert_count").value_or(0);
    require(experts == 0, Exit::kData, "{}: a mixture of {} experts; only dense models are supported", m.what(),
            experts);
    require(m.boolean("llama.attention.causal").value_or(true), Exit::kData,
            "{}: attention is not causal; only causal models are supported", m.what());
    for (const char* key : {"llama.logit_scale", "llama.embedding_scale", "llama.residual_scale",
                            "llama.attention.scale", "llama.attention.clamp_kqv"}) {
        require(!m.has(key), Exit::kData, "{}: '{}' is set; it is not supported", m.what(), key);
    }
}

RopeScaling scaling_type(const GgufMetadata& m) {
    const bool old_linear = m.has("llama.rope.scale_linear");  // the key of files older than llama.rope.scaling.type
    const std::string type = m.string("llama.rope.scaling.type").value_or(old_linear ? "linear" : "none");
    if (type == "none") return RopeScaling::kNone;
    if (type == "linear") return RopeScaling::kLinear;
    if (type == "yarn") return RopeScaling::kYarn;
    fail(Exit::kData, "{}: unknown rope type '{}'; known: none, linear, yarn", m.what(), shown(type));
}

/// `context` on entry: the file's. On exit: the context with scaling.
RopeConfig rope_config(const GgufMetadata& m, int64_t& context) {
    RopeConfig r;
    r.theta = m.number("llama.rope.freq_base").value_or(10000);
    r.scaling = scaling_type(m);
    r.original_context = context;
    if (r.scaling == RopeScaling::kNone) return r;

    const double factor = m.has("llama.rope.scaling.factor") ? m.number("llama.rope.scaling.factor").value_or(1)
                                                             : m.number("llama.rope.scale_linear").value_or(1);
    r.factor = factor == 0 ? 1 : factor;  // in files, 0 means none
    if (r.scaling == RopeScaling::kYarn) {
        r.original_context = m.integer("llama.rope.scaling.original_context_length").value_or(context);
        r.beta_fast = m.number("llama.rope.scaling.yarn_beta_fast").value_or(32);
        r.beta_slow = m.number("llama.rope.scaling.yarn_beta_slow").value_or(1);
        const char* key = m.has("llama.rope.scaling.yarn_attn_factor") ? "llama.rope.scaling.yarn_attn_factor"
                                                                       : "llama.rope.scaling.attn_factor";
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

int64_t vocabulary(const GgufFile& file) {
    const GgufMetadata& m = file.metadata;
    if (const size_t tokens = m.array_size("tokenizer.ggml.tokens")) return static_cast<int64_t>(tokens);
    if (const auto size = m.integer("llama.vocab_size")) return *size;
    for (const GgufTensor& t : file.tensors) {
        if (t.name == "token_embd.weight") return static_cast<int64_t>(t.dims.front());
    }
    fail(Exit::kData, "{}: neither a tokenizer nor 'llama.vocab_size' says how many tokens there are", m.what());
}

}  // namespace

LlamaConfig gguf_config(const GgufFile& file) {
    const GgufMetadata& m = file.metadata;
    refuse_variants(m);
    LlamaConfig c;
    c.arch = "llama";
    c.name = m.string("general.name").value_or("");
    c.n_layers = m.required_integer("llama.block_count");
    c.dim = m.required_integer("llama.embedding_length");
    c.ffn_dim = m.required_integer("llama.feed_forward_length");
    c.n_heads = m.required_integer("llama.attention.head_count");
    c.n_kv_heads = m.integer("llama.attention.head_count_kv").value_or(c.n_heads);
    c.context = m.required_integer("llama.context_length");
    c.norm_eps = m.number("llama.attention.layer_norm_rms_epsilon").value_or(1e-6);
    c.vocab = vocabulary(file);
    // These are checked before anything is divided or sized by them; validate() checks the rest.
    const std::tuple<int64_t, int64_t, const char*> ranges[] = {
        {c.n_layers, limits::kLayers, "llama.block_count"},
        {c.n_heads, limits::kHeads, "llama.attention.head_count"},
        {c.context, limits::kContext, "llama.context_length"}};
    for (const auto& [value, most, key] : ranges) {
        require(value >= 1 && value <= most, Exit::kData, "{}: '{}' is {}; between 1 and {} is supported", m.what(),
                key, value, most);
    }

    const auto key_length = m.integer("llama.attention.key_length");
    require(key_length || c.dim % c.n_heads == 0, Exit::kData,
            "{}: an embedding of {} is no multiple of {} heads and there is no 'llama.attention.key_length'", m.what(),
            c.dim, c.n_heads);
    c.head_dim = key_length.value_or(c.dim / c.n_heads);
    const int64_t values = m.integer("llama.attention.value_length").value_or(c.head_dim);
    const int64_t rotated = m.integer("llama.rope.dimension_count").value_or(c.head_dim);
    require(values == c.head_dim && rotated == c.head_dim, Exit::kData,
            "{}: keys of {}, values of {}, {} of them rotated; only equal numbers are supported", m.what(), c.head_dim,
            values, rotated);

    c.rope = rope_config(m, c.context);
    const int64_t window = m.integer("llama.attention.sliding_window").value_or(0);
    require(window == 0 || window >= c.context, Exit::kData,
            "{}: a sliding window of {} is shorter than the context of {}; only full attention is supported", m.what(),
            window, c.context);
    for (const char* key : kEos) {
        const int32_t id = token_id(m, key, c.vocab);
        if (id >= 0 && std::find(c.eos.begin(), c.eos.end(), id) == c.eos.end()) c.eos.push_back(id);
    }
    c.bos = token_id(m, "tokenizer.ggml.bos_token_id", c.vocab);
    c.tied_embeddings = std::none_of(file.tensors.begin(), file.tensors.end(),
                                     [](const GgufTensor& t) { return t.name == "output.weight"; });
    c.layer_map = LayerMap::identity(c.n_layers);
    validate(c, m.what());
    return c;
}

}  // namespace trireme
