#pragma once
/// Architecture: what the files of one model family mean. There is one row per family; the readers of config.json, GGUF
/// metadata and tensor names, the weights and the writers of converted models read it (reference families).

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Biases of the query, key and value projections, and of the output projection. kIfSet: 'attention_bias' adds all
/// four.
enum class Biases : uint8_t { kNone, kIfSet, kQkv };
/// Layers with a sliding window. kAll: every layer, if 'sliding_window' is set. kByLayer: with 'use_sliding_window',
/// those of 'layer_types', or those from 'max_window_layers' on.
enum class Windows : uint8_t { kNone, kAll, kByLayer };

struct Architecture {
    std::string_view model_type;  // in config.json
    std::string_view hf_class;    // its class in transformers
    std::string_view gguf;        // 'general.architecture', and the prefix of GGUF keys; empty: no such files
    Biases biases = Biases::kIfSet;
    Windows windows = Windows::kNone;
    bool qk_norm = false;         // RMSNorm of every query and key head before the rotation
    bool fused = false;           // files have q, k and v in one matrix, and gate and up in another one
    bool partial_rotary = false;  // 'partial_rotary_factor' counts; longrope is also spelled "su" and "yarn"
    bool gguf_pairs = false;      // GGUF stores the rows of query and key heads as rotated pairs
    bool layer_map = false;       // 'layer_types' is a layer map (model/checkpoint/layer_sharing.h)
    // The values of missing keys, as in transformers. 0: the key is required, or, for head_dim and kv_heads, follows
    // from others.
    int64_t head_dim = 0, context = 0, window = 0;
    bool kv_heads_required = true;
    double norm_eps = 1e-6;
    int32_t eos = -1;  // -1: none
};

/// All families.
std::span<const Architecture> architectures();
/// The family of a 'model_type'. Errors: Exit::kData, naming the supported ones.
const Architecture& architecture_of(std::string_view model_type, std::string_view what);
/// The family of a GGUF's 'general.architecture'. Errors: as architecture_of.
const Architecture& gguf_architecture(std::string_view name, std::string_view what);

}  // namespace trireme
