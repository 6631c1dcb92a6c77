#include "model/checkpoint/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "model/checkpoint/layer_sharing.h"
#include "model/files/keys.h"
#include "model/files/limits.h"
#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/log.h"

namespace trireme {
namespace {

template <class T>
void check_range(T value, T least, T most, const char* name, std::string_view what) {
    // Written so that NaN fails.
    require(value >= least && value <= most, Exit::kData, "{}: {} is {}; between {} and {} is supported", what, name,
            value, least, most);
}

void check_head_dim(int64_t head_dim, std::string_view what) {
    check_range<int64_t>(head_dim, 8, limits::kHeadDim, "the head dimension", what);
    require(head_dim % 8 == 0, Exit::kData, "{}: a head dimension of {}; a multiple of 8 is supported", what, head_dim);
}

/// Refuses, by name, every setting that model/forward.cc does not implement.
void refuse_variants(const Keys& keys, const Architecture& family, std::string_view what) {
    const std::string act = keys.string("hidden_act").value_or("silu");
    require(act == "silu" || act == "swish", Exit::kData, "{}: 'hidden_act' is '{}'; supported: silu, which is swish",
            what, shown(act));
    for (const char* key : {"attention_bias", "mlp_bias", "rope_interleaved", "use_mrope"}) {
        if (std::string_view(key) == "attention_bias" && family.biases != Biases::kNone) continue;
        require(!keys.boolean(key).value_or(false), Exit::kData, "{}: '{}' is true; only false is supported", what,
                key);
    }
}

/// Returns which layers have type "sliding_attention".
std::vector<bool> read_layer_types(const Json& types, int64_t layers, std::string_view what) {
    require(types.is_array() && types.size() == static_cast<size_t>(layers), Exit::kData,
            "{}: 'layer_types' is {}; a list of {} types was expected", what, Keys::text(types), layers);
    std::vector<bool> windowed;
    for (const Json& type : types) {
        require(type == "full_attention" || type == "sliding_attention", Exit::kData,
                "{}: 'layer_types' has {}; supported: full_attention, sliding_attention", what, Keys::text(type));
        windowed.push_back(type == "sliding_attention");
    }
    return windowed;
}

/// Sets the layers that see a sliding window. A window that is no shorter than the context is none.
void read_windows(LlamaConfig& c, const Json& json, const Keys& keys, std::string_view what) {
    const Windows windows = c.family->windows;
    // A missing key has the family's default; null means no window.
    int64_t window = json.contains("sliding_window") ? keys.integer("sliding_window").value_or(0) : c.family->window;
    if (windows == Windows::kByLayer && !keys.boolean("use_sliding_window").value_or(false)) window = 0;
    const Json* types = keys.find("layer_types");
    std::vector<bool> windowed(static_cast<size_t>(c.n_layers), windows == Windows::kAll);
    if (windows == Windows::kByLayer) {
        const int64_t full = keys.integer("max_window_layers").value_or(28);
        for (int64_t l = 0; l < c.n_layers; ++l) windowed[index(l)] = l >= full;
    }
    if (types != nullptr && windows != Windows::kAll) windowed = read_layer_types(*types, c.n_layers, what);
    if (window != 0) check_range<int64_t>(window, 1, limits::kContext, "'sliding_window'", what);
    const bool any = std::ranges::find(windowed, true) != windowed.end();
    if (windows == Windows::kNone) {
        require(!any, Exit::kData, "{}: 'layer_types' has sliding_attention; {} has full attention only", what,
                c.family->model_type);
        require(window == 0 || window >= c.context, Exit::kData,
                "{}: a sliding window of {}; {} has full attention only", what, window, c.family->model_type);
    }
    if (window == 0 || window >= c.context || !any) return;
    c.sliding_window = window;
    c.layer_map = LayerMap::identity(std::move(windowed));
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
    if (name == "longrope" || name == "su") return RopeScaling::kLongrope;
    fail(Exit::kData, "{}: unknown rope type '{}'; known: default, linear, dynamic, yarn, llama3, longrope", what,
         shown(name));
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

std::vector<float> read_factors(const Keys& rope, const char* key, int64_t pairs, std::string_view what) {
    const Json* list = rope.find(key);
    require(list && list->is_array() && list->size() == static_cast<size_t>(pairs), Exit::kData,
            "{}: '{}' is {}; a list of {} numbers was expected, one per rotated pair", what, key,
            list ? Keys::text(*list) : "missing", pairs);
    std::vector<float> factors;
    for (const Json& x : *list) {
        require(x.is_number(), Exit::kData, "{}: '{}' has {}; a number was expected", what, key, Keys::text(x));
        factors.push_back(x.get<float>());
        check_range(factors.back(), 1e-6f, 1e6f, key, what);
    }
    return factors;
}

/// Longrope: max_position_embeddings is the stretched context.
void read_longrope(RopeConfig& r, const Keys& rope, int64_t head_dim, int64_t context, std::string_view what) {
    r.short_factors = read_factors(rope, "short_factor", r.dim(head_dim) / 2, what);
    r.long_factors = read_factors(rope, "long_factor", r.dim(head_dim) / 2, what);
    const double original = static_cast<double>(r.original_context);
    const double factor = rope.number("factor").value_or(static_cast<double>(context) / original);
    r.factor = std::max(1.0, factor);
    r.attention_factor = longrope_scale(factor, r.original_context);
    r.attention_factor = rope.number("attention_factor").value_or(r.attention_factor);
    r.choose_factors(context);
}

/// `context` on entry: max_position_embeddings. On exit: the context with scaling.
RopeConfig read_rope(const Keys& keys, const Architecture& family, int64_t head_dim, int64_t& context,
                     std::string_view what) {
    const Json none = Json::object();
    const Json* dict = keys.find("rope_scaling");  // overrides rope_parameters if a file has both
    if (!dict || dict->empty()) dict = keys.find("rope_parameters");
    const std::string where = fmt::format("{} (rope scaling)", what);
    const Keys rope(dict ? *dict : none, where);

    RopeConfig r;
    r.theta = rope.number("rope_theta").value_or(keys.number("rope_theta").value_or(10000));
    const double partial =
        rope.number("partial_rotary_factor").value_or(keys.number("partial_rotary_factor").value_or(1));
    require(partial == 1 || (family.partial_rotary && partial > 0 && partial < 1), Exit::kData,
            "{}: 'partial_rotary_factor' is {}; only 1 is supported", what, partial);
    r.rotary_dim = static_cast<int64_t>(static_cast<double>(head_dim) * partial);
    require(r.rotary_dim >= 4 && r.rotary_dim % 2 == 0, Exit::kData,
            "{}: 'partial_rotary_factor' {} of heads of {} rotates {} elements; an even number was expected", what,
            partial, head_dim, r.rotary_dim);
    r.scaling = read_rope_type(rope, what);
    if (family.partial_rotary && r.scaling == RopeScaling::kYarn) r.scaling = RopeScaling::kLongrope;  // an old name
    r.original_context = context;
    if (r.scaling == RopeScaling::kNone) return r;

    const bool from_lengths = r.scaling == RopeScaling::kYarn && !rope.find("factor");
    if (r.scaling == RopeScaling::kYarn || r.scaling == RopeScaling::kLlama3 || r.scaling == RopeScaling::kLongrope) {
        // Phi-3's class has the key with a default, which counts more than one among the rope settings.
        const int64_t missing =
            family.partial_rotary ? 4096 : rope.integer("original_max_position_embeddings").value_or(context);
        r.original_context = keys.integer("original_max_position_embeddings").value_or(missing);
        require(r.original_context > 0 && r.original_context <= limits::kContext, Exit::kData,
                "{}: 'original_max_position_embeddings' is {}; between 1 and {} is supported", what, r.original_context,
                limits::kContext);
    }
    if (r.scaling == RopeScaling::kLongrope) {
        read_longrope(r, rope, head_dim, context, where);
        return r;
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
    const int64_t pairs = r.dim(head_dim) / 2;
    require(r.factors.empty() || r.factors.size() == static_cast<size_t>(pairs), Exit::kData,
            "{}: {} rope frequency factors; one for each of {} pairs was expected", what, r.factors.size(), pairs);
    for (const auto* list : {&r.factors, &r.short_factors, &r.long_factors}) {
        for (const float f : *list) check_range(f, 1e-6f, 1e6f, "a rope frequency factor", what);
    }
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
    check_head_dim(c.head_dim, what);
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
    c.family = &architecture_of(keys.required(keys.string("model_type"), "model_type"), what);
    const Architecture& family = *c.family;
    refuse_variants(keys, family, what);
    c.name = keys.string("_name_or_path").value_or("");
    c.n_layers = keys.required(keys.integer("num_hidden_layers"), "num_hidden_layers");
    c.dim = keys.required(keys.integer("hidden_size"), "hidden_size");
    c.n_heads = keys.required(keys.integer("num_attention_heads"), "num_attention_heads");
    c.ffn_dim = keys.required(keys.integer("intermediate_size"), "intermediate_size");
    c.vocab = keys.required(keys.integer("vocab_size"), "vocab_size");
    // From here on a missing key has the default of the family's class in transformers.
    const auto n_kv = keys.integer("num_key_value_heads");
    const bool no_heads = family.kv_heads_required && !keys.has_null("num_key_value_heads");
    c.n_kv_heads = no_heads ? keys.required(n_kv, "num_key_value_heads") : n_kv.value_or(c.n_heads);
    const auto context = keys.integer("max_position_embeddings");
    c.context =
        family.context == 0 ? keys.required(context, "max_position_embeddings") : context.value_or(family.context);
    c.norm_eps = keys.number("rms_norm_eps").value_or(family.norm_eps);
    c.tied_embeddings = keys.boolean("tie_word_embeddings").value_or(false);
    c.o_bias = family.biases == Biases::kIfSet && keys.boolean("attention_bias").value_or(false);
    c.qkv_bias = c.o_bias || family.biases == Biases::kQkv;

    // These are checked before anything is divided or sized by them.
    check_range<int64_t>(c.n_layers, 1, limits::kLayers, "'num_hidden_layers'", what);
    check_range<int64_t>(c.n_heads, 1, limits::kHeads, "'num_attention_heads'", what);
    check_range<int64_t>(c.vocab, 1, limits::kVocab, "'vocab_size'", what);
    check_range<int64_t>(c.context, 1, limits::kContext, "'max_position_embeddings'", what);
    const bool explicit_dim = keys.find("head_dim") || family.head_dim > 0;
    require(explicit_dim || c.dim % c.n_heads == 0, Exit::kData,
            "{}: 'hidden_size' {} is no multiple of {} heads and there is no 'head_dim'", what, c.dim, c.n_heads);
    c.head_dim = keys.integer("head_dim").value_or(family.head_dim > 0 ? family.head_dim : c.dim / c.n_heads);
    check_head_dim(c.head_dim, what);

    c.rope = read_rope(keys, family, c.head_dim, c.context, what);
    c.layer_map = LayerMap::identity(c.n_layers);
    if (family.layer_map) {
        read_sharing(c, keys, what);
    } else {
        read_windows(c, json, keys, what);
    }
    // A null key means none.
    c.eos = read_ids(keys, "eos_token_id", json.contains("eos_token_id") ? -1 : family.eos, c.vocab, what);
    validate(c, what);
    return c;
}

void apply_generation_config(LlamaConfig& config, const Json& json, std::string_view what) {
    const Keys keys(json, what);
    if (keys.find("eos_token_id")) config.eos = read_ids(keys, "eos_token_id", -1, config.vocab, what);
}

}  // namespace trireme
