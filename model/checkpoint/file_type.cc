#include "model/checkpoint/file_type.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>

#include "model/checkpoint/gguf_keys.h"

namespace trireme {
namespace {

using T = StoredType;

constexpr FileType kFileTypes[] = {
    {"Q4_0", 2, T::kQ4_0},    {"Q4_1", 3, T::kQ4_1},    {"Q8_0", 7, T::kQ8_0},      {"Q5_0", 8, T::kQ5_0},
    {"Q5_1", 9, T::kQ5_1},    {"Q2_K", 10, T::kQ2_K},   {"Q3_K_S", 11, T::kQ3_K},   {"Q3_K_M", 12, T::kQ3_K},
    {"Q3_K_L", 13, T::kQ3_K}, {"Q4_K_S", 14, T::kQ4_K}, {"Q4_K_M", 15, T::kQ4_K},   {"Q5_K_S", 16, T::kQ5_K},
    {"Q5_K_M", 17, T::kQ5_K}, {"Q6_K", 18, T::kQ6_K},   {"IQ4_NL", 25, T::kIQ4_NL}, {"IQ4_XS", 30, T::kIQ4_XS},
};

/// The first and last eighth of the layers, and every third one between them.
bool is_sensitive(int64_t layer, int64_t layers) {
    const int64_t eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

int64_t layer_of(std::string_view name) {
    constexpr std::string_view kLayers = "model.layers.";
    int64_t layer = 0;
    if (name.starts_with(kLayers)) std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
    return layer;
}

/// The choice for values (v_proj), and for a matrix of q, k and v.
T of_values(const FileType& f, const LlamaConfig& c, int64_t layer) {
    const bool grouped = c.n_heads >= 4 * c.n_kv_heads;
    T type = f.base;
    if (f.name == "Q2_K") type = grouped ? T::kQ4_K : T::kQ3_K;
    if (f.name == "Q3_K_M") type = layer < 2 ? T::kQ5_K : T::kQ4_K;
    if (f.name == "Q3_K_L") type = T::kQ5_K;
    if ((f.name == "IQ4_NL" || f.name == "IQ4_XS") && grouped) type = T::kQ5_K;
    if ((f.name == "Q4_K_M" || f.name == "Q5_K_M") && is_sensitive(layer, c.n_layers)) type = T::kQ6_K;
    if (f.name == "Q4_K_S" && layer < 4) type = T::kQ5_K;
    // Models of 80 layers (70B): eight heads share these few values.
    const std::string_view family = gguf_family(c).gguf;
    const bool shared = family == "qwen2" || (family == "llama" && c.n_heads != c.n_kv_heads);
    return c.n_layers == 80 && shared && (type == T::kQ3_K || type == T::kQ4_K) ? T::kQ5_K : type;
}

/// The choice for down projections.
T of_down(const FileType& f, const LlamaConfig& c, int64_t layer) {
    if (f.name == "Q2_K") return T::kQ3_K;
    if (f.name == "Q3_K_M") return layer < c.n_layers / 16 ? T::kQ5_K : T::kQ4_K;
    if (f.name == "Q3_K_L") return T::kQ5_K;
    if (f.name == "Q4_K_M" || f.name == "Q5_K_M") return is_sensitive(layer, c.n_layers) ? T::kQ6_K : f.base;
    const bool more = f.name == "IQ4_NL" || f.name == "IQ4_XS" || f.name == "Q4_K_S";
    return more && layer < c.n_layers / 8 ? T::kQ5_K : f.base;
}

/// The choice for output projections of attention.
T of_attention_output(const FileType& f) {
    if (f.name == "Q2_K") return T::kQ3_K;
    if (f.name == "Q3_K_M") return T::kQ4_K;
    if (f.name == "Q3_K_L") return T::kQ5_K;
    return f.base;
}

/// The type with blocks of 32 for rows that are no whole blocks of 256.
T with_small_blocks(T type) {
    switch (type) {
        case T::kQ2_K:
        case T::kQ3_K:
            return T::kQ4_0;
        case T::kIQ4_XS:
            return T::kIQ4_NL;
        case T::kQ4_K:
            return T::kQ5_0;
        case T::kQ5_K:
            return T::kQ5_1;
        case T::kQ6_K:
            return T::kQ8_0;
        default:
            return type;
    }
}

}  // namespace

std::span<const FileType> file_types() {
    return kFileTypes;
}

const FileType* file_type_named(std::string_view name) {
    std::string upper(name);
    std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (upper == "Q3_K" || upper == "Q4_K" || upper == "Q5_K") upper += "_M";
    const auto* const it = std::ranges::find(kFileTypes, upper, &FileType::name);
    return it == std::end(kFileTypes) ? nullptr : it;
}

uint32_t plain_file_type(DType type) {
    return type == DType::kF32 ? 0 : type == DType::kF16 ? 1 : 32;
}

StoredType type_in(const FileType& file, const LlamaConfig& c, std::string_view name, int64_t cols) {
    const int64_t layer = layer_of(name);
    const auto is = [&](std::string_view end) { return name.ends_with(end); };
    const auto whole = [&](T t) { return cols % layout_of(t).elements == 0; };
    T type = file.base;
    if (name == "lm_head.weight" || (c.tied_embeddings && name == "model.embed_tokens.weight")) {
        if (type != T::kQ8_0) type = cols % kMostBlock == 0 ? T::kQ6_K : T::kQ8_0;
    } else if (is("v_proj.weight") || (c.family->fused && (is("q_proj.weight") || is("k_proj.weight")))) {
        type = of_values(file, c, layer);
    } else if (is("down_proj.weight")) {
        type = of_down(file, c, layer);
    } else if (is("o_proj.weight")) {
        type = of_attention_output(file);
    }
    if (!whole(type)) type = with_small_blocks(type);
    return whole(type) ? type : T::kF16;
}

}  // namespace trireme
