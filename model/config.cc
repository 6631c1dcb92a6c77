#include "model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "model/files/keys.h"
#include "model/files/limits.h"
#include "model/files/shown.h"
#include "model/layer_sharing.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// Returns the architecture. Refuses, by name, every setting that model/forward.cc does not implement.
std::string read_arch(const Keys& keys, std::string_view what) {
    const std::string arch = keys.required(keys.string("model_type"), "model_type");
    require(arch == "llama" || arch == "mistral" || shares_layers(arch), Exit::kData,
            "{}: 'model_type' is '{}'; supported: llama, mistral without a sliding window, lckv-llama, opt-llama, "
            "cla-llama and group-opt-llama",
            what, shown(arch));
    const std::string act = keys.string("hidden_act").value_or("silu");
    require(act == "silu" || act == "swish", Exit::kData, "{}: 'hidden_act' is '{}'; supported: silu, which is swish",
            what, shown(act));
    for (const char* key : {"attention_bias", "mlp_bias", "rope_interleaved"}) {
        require(!keys.boolean(key).value_or(false), Exit::kData, "{}: '{}' is true; only false is supported", what,
                key);
    }
    require(!keys.find("quantization_config"), Exit::kData,
            "{}: 'quantization_config' is set; supported: F32, F16 and BF16 safetensors, and GGUF", what);
    return arch;
}

void refuse_window(const Json& json, const Keys& keys, const LlamaConfig& c, std::string_view what) {
    // A mistral config without the key means transformers' default of 4096; null means no window.
    const bool implied = c.arch == "mistral" && !json.contains("sliding_window");
    const int64_t window = keys.integer("sliding_window").value_or(implied ? 4096 : c.context);
    require(window >= c.context, Exit::kData,
            "{}: a sliding window of {} is shorter than the context of {}; only full attention is supported", what,
            window, c.context);
    const Json* types = keys.find("layer_types");
    require(!types || (types->is_array() &&
                       std::all_of(types->begin(), types->end(), [](const Json& t) { return t == "full_attention"; })),
            Exit::kData, "{}: 'layer_types' names more than 'full_attention'; only that is supported", what);
}

RopeScaling read_rope_type(const Keys& rope, std::string_view what) {
    const std::optional<std::string> type = rope.string("rope_type") ? rope.string("rope_type") : rope.string("type");
    require(type || !rope.find("factor"), Exit::kData, "{}: the rope scaling has a factor and no 'rope_type'", what);
    const std::string name = type.value_or("default");
    if (name == "default" || name == "none") return RopeScaling::kNone;
    if (name == "linear") return RopeScaling::kLinear;
    if (name == "dynamic") return RopeScaling::kDynamic;
    if (name == "yarn") return RopeScaling::kYarn;
    if (name == "llama3") return RopeScaling::kLlama3;
    fail(Exit::kData, "{}: unknown rope type '{}'; known: default, linear, dynamic, yarn, llama3", what, shown(name));
}

/// YaRN's scale of cos and sin.
double mscale(double factor, double m) {
    return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0;
}

void read_yarn(RopeConfig& r, const Keys& rope) {
    r.beta_fast = rope.number("beta_fast").value_or(32);
    r.beta_slow = rope.number("beta_slow").value_or(1);
    if (r.beta_fast == 0) r.beta_fast = 32;
    if (r.beta_slow == 0) r.beta_slow = 1;
    r.truncate = rope.boolean("truncate").value_or(true);
    const double m = rope.number("mscale").value_or(0), all = rope.number("mscale_all_dim").value_or(0);
    if (m != 0 && all != 0) r.attention_factor = mscale(r.factor, m) / mscale(r.factor, all);
    r.attention_factor = rope.number("attention_factor").value_or(r.attention_factor);
}

/// `context` on entry: max_position_embeddings. On exit: the context with scaling.
RopeConfig read_rope(const Keys& keys, int64_t& context, std::string_view what) {
    const Json none = Json::object();
    const Json* dict = keys.find("rope_scaling");  // overrides rope_parameters if a file has both
    if (!dict || dict->empty()) dict = keys.find("rope_parameters");
    const std::string where = fmt::format("{} (rope scaling)", what);
    const Keys rope(dict ? *dict : none, where);

    RopeConfig r;
    r.theta = rope.number("rope_theta").value_or(keys.number("rope_theta").value_or(10000));
    const double partial =
        rope.number("partial_rotary_factor").value_or(keys.number("partial_rotary_factor").value_or(1));
    require(partial == 1, Exit::kData, "{}: 'partial_rotary_factor' is {}; only 1 is supported", what, partial);
    r.scaling = read_rope_type(rope, what);
    r.original_context = context;
    if (r.scaling == RopeScaling::kNone) return r;

    const bool from_lengths = r.scaling == RopeScaling::kYarn && !rope.find("factor");
    if (r.scaling == RopeScaling::kYarn || r.scaling == RopeScaling::kLlama3) {
        r.original_context = keys.integer("original_max_position_embeddings")
                                 .value_or(rope.integer("original_max_position_embeddings").value_or(context));
        require(r.original_context > 0 && r.original_context <= limits::kContext, Exit::kData,
                "{}: 'original_max_position_embeddings' is {}; between 1 and {} is supported", what, r.original_context,
                limits::kContext);
    }
    r.factor = from_lengths ? static_cast<double>(context) / static_cast<double>(r.original_context)
                            : rope.required(rope.number("factor"), "factor");
    if (r.scaling == RopeScaling::kYarn) read_yarn(r, rope);
    if (r.scaling == RopeScaling::kLlama3) {
        r.low_freq_factor = rope.required(rope.number("low_freq_factor"), "low_freq_factor");
        r.high_freq_factor = rope.required(rope.number("high_freq_factor"), "high_freq_factor");
        return r;
    }
    // linear and dynamic: max_position_embeddings is the trained length. yarn: it may be either, so the longer counts.
    const double reach = static_cast<double>(r.original_context) * r.factor;
    require(reach <= static_cast<double>(limits::kContext), Exit::kData,
            "{}: {} tokens stretched {} times; at most {} are supported", what, r.original_context, r.factor,
            limits::kContext);
    context = std::max(context, static_cast<int64_t>(reach));
    return r;
}

std::vector<int32_t> read_ids(const Keys& keys, const char* key, int32_t missing, int64_t vocab,
                              std::string_view what) {
    const Json* v = keys.find(key);
    Json one = Json::array();
    if (!v) {
        if (missing >= 0 && missing < vocab) one.push_back(missing);
    } else if (!v->is_array()) {
        one.push_back(*v);
    }
    const Json& list = v && v->is_array() ? *v : one;
    require(list.size() <= limits::kEosTokens, Exit::kData, "{}: '{}' lists {} tokens, at most {} are supported", what,
            key, list.size(), limits::kEosTokens);
    std::vector<int32_t> ids;
    for (const Json& id : list) {
        require(id.is_number_integer(), Exit::kData, "{}: '{}' is {}; a token id was expected", what, key,
                Keys::text(id));
        if (id >= 0 && id < vocab) {
            ids.push_back(id.get<int32_t>());
        } else {  // no token has it; transformers ignores it silently
            log::warn("{}: '{}' has {}, which is no id of the vocabulary of {}; it is ignored", what, key,
                      Keys::text(id), vocab);
        }
    }
    return ids;
}

template <class T>
void check_range(T value, T least, T most, const char* name, std::string_view what) {
    // Written so that NaN fails.
    require(value >= least && value <= most, Exit::kData, "{}: {} is {}; between {} and {} is supported", what, name,
            value, least, most);
}

void validate(const RopeConfig& r, int64_t head_dim, std::string_view what) {
    check_range(r.theta, 1.0 + 1e-6, 1e12, "rope theta", what);
    check_range(r.factor, 1.0, 1e6, "the rope scaling's factor", what);
    check_range<int64_t>(r.original_context, 1, limits::kContext, "the original context", what);
    check_range(r.attention_factor, 0.0, 1e6, "the rope scaling's attention factor", what);
    check_range(r.beta_slow, 1e-6, 1e6, "beta_slow", what);
    check_range(r.beta_fast, r.beta_slow, 1e6, "beta_fast", what);
    check_range(r.low_freq_factor, 1e-6, 1e6, "low_freq_factor", what);
    if (r.scaling == RopeScaling::kLlama3) {
        require(r.high_freq_factor > r.low_freq_factor && r.high_freq_factor <= 1e6, Exit::kData,
                "{}: high_freq_factor is {}; more than low_freq_factor ({}) was expected", what, r.high_freq_factor,
                r.low_freq_factor);
    }
    require(r.factors.empty() || r.factors.size() == static_cast<size_t>(head_dim / 2), Exit::kData,
            "{}: {} rope frequency factors; one for each of {} pairs was expected", what, r.factors.size(),
            head_dim / 2);
    for (const float f : r.factors) check_range(f, 1e-6f, 1e6f, "a rope frequency factor", what);
}

}  // namespace

void validate(const LlamaConfig& c, std::string_view what) {
    check_range<int64_t>(c.n_layers, 1, limits::kLayers, "the number of layers", what);
    check_range<int64_t>(c.dim, 1, limits::kDim, "the hidden size", what);
    check_range<int64_t>(c.ffn_dim, 1, limits::kFfnDim, "the intermediate size", what);
    check_range<int64_t>(c.n_heads, 1, limits::kHeads, "the number of heads", what);
    check_range<int64_t>(c.n_kv_heads, 1, c.n_heads, "the number of KV heads", what);
    require(c.n_heads % c.n_kv_heads == 0, Exit::kData, "{}: {} heads cannot share {} KV heads evenly", what, c.n_heads,
            c.n_kv_heads);
    check_range<int64_t>(c.head_dim, 8, limits::kHeadDim, "the head dimension", what);
    require(c.head_dim % 8 == 0, Exit::kData, "{}: a head dimension of {}; a multiple of 8 is supported", what,
            c.head_dim);
    check_range<int64_t>(c.vocab, 1, limits::kVocab, "the vocabulary", what);
    check_range<int64_t>(c.context, 1, limits::kContext, "the context", what);
    check_range(c.norm_eps, std::numeric_limits<double>::denorm_min(), 1.0, "the norm's epsilon", what);
    require(c.layer_map.layers() == c.n_layers, Exit::kData, "{}: a layer map of {} layers for a model of {}", what,
            c.layer_map.layers(), c.n_layers);
    check_range<int64_t>(c.passes, 1, limits::kContext, "the number of passes", what);
    for (LayerIndex l; l.i < c.n_layers; ++l) {
        const LayerIndex source = c.layer_map.source(l);
        if (c.layer_map.windowed(l)) {
            check_range<int64_t>(c.sliding_window, 1, limits::kContext, "'sliding_window'", what);
        } else {
            require(!c.layer_map.windowed(source), Exit::kData,
                    "{}: layer {} sees all tokens and reads layer {}, which keeps a sliding window; want an 's' after "
                    "both, or after neither",
                    what, l, source);
        }
    }
    validate(c.rope, c.head_dim, what);
}

LlamaConfig parse_config(const Json& json, std::string_view what) {
    const Keys keys(json, what);
    LlamaConfig c;
    c.arch = read_arch(keys, what);
    c.name = keys.string("_name_or_path").value_or("");
    c.n_layers = keys.required(keys.integer("num_hidden_layers"), "num_hidden_layers");
    c.dim = keys.required(keys.integer("hidden_size"), "hidden_size");
    c.n_heads = keys.required(keys.integer("num_attention_heads"), "num_attention_heads");
    c.ffn_dim = keys.required(keys.integer("intermediate_size"), "intermediate_size");
    c.vocab = keys.required(keys.integer("vocab_size"), "vocab_size");
    // From here on a missing key has the default of transformers' LlamaConfig; mistral's defaults differ.
    const bool mistral = c.arch == "mistral";
    const auto n_kv = keys.integer("num_key_value_heads");
    c.n_kv_heads = mistral ? keys.required(n_kv, "num_key_value_heads") : n_kv.value_or(c.n_heads);
    const auto context = keys.integer("max_position_embeddings");
    c.context = mistral ? keys.required(context, "max_position_embeddings") : context.value_or(2048);
    c.norm_eps = keys.number("rms_norm_eps").value_or(1e-6);
    c.tied_embeddings = keys.boolean("tie_word_embeddings").value_or(false);

    // These are checked before anything is divided or sized by them.
    check_range<int64_t>(c.n_layers, 1, limits::kLayers, "'num_hidden_layers'", what);
    check_range<int64_t>(c.n_heads, 1, limits::kHeads, "'num_attention_heads'", what);
    check_range<int64_t>(c.vocab, 1, limits::kVocab, "'vocab_size'", what);
    check_range<int64_t>(c.context, 1, limits::kContext, "'max_position_embeddings'", what);
    const auto head_dim = keys.integer("head_dim");
    require(head_dim || c.dim % c.n_heads == 0, Exit::kData,
            "{}: 'hidden_size' {} is no multiple of {} heads and there is no 'head_dim'", what, c.dim, c.n_heads);
    c.head_dim = head_dim.value_or(c.dim / c.n_heads);

    c.rope = read_rope(keys, c.context, what);
    if (!shares_layers(c.arch)) refuse_window(json, keys, c, what);
    // transformers' default is 2; a null key means none.
    c.eos = read_ids(keys, "eos_token_id", json.contains("eos_token_id") ? -1 : 2, c.vocab, what);
    read_sharing(c, keys, what);
    validate(c, what);
    return c;
}

void apply_generation_config(LlamaConfig& config, const Json& json, std::string_view what) {
    const Keys keys(json, what);
    if (keys.find("eos_token_id")) config.eos = read_ids(keys, "eos_token_id", -1, config.vocab, what);
}

}  // namespace trireme
