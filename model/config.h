#pragma once
/// What a checkpoint says about itself: shapes, rotary embedding, what ends a text.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/json.h"
#include "model/layer_map.h"

namespace trireme {

/// How rotary frequencies are stretched to contexts longer than the pretrained one. Named as in config.json.
enum class RopeScaling { kNone, kLinear, kDynamic, kYarn, kLlama3 };

/// "none", "linear", "dynamic", "yarn", "llama3".
std::string_view name_of(RopeScaling scaling);

struct RopeConfig {
    double theta = 10000;
    RopeScaling scaling = RopeScaling::kNone;
    double factor = 1;
    int64_t original_context = 0;                      // tokens of pretraining; dynamic, yarn and llama3 read it
    double beta_fast = 32, beta_slow = 1;              // yarn: rotations over the original context that bound the ramp
    bool truncate = true;                              // yarn: the ramp's ends are whole dimensions
    double attention_factor = 0;                       // yarn: scale of cos and sin; 0: 0.1 ln(factor) + 1
    double low_freq_factor = 1, high_freq_factor = 4;  // llama3
    std::vector<float> factors = {};  // GGUF `rope_freqs.weight`: divisor per pair, [head_dim / 2] or empty
};

struct LlamaConfig {
    std::string arch;  // "llama"
    std::string name;  // for people; may be empty
    int64_t n_layers = 0, dim = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, ffn_dim = 0, vocab = 0;
    int64_t context = 0;  // tokens the checkpoint serves, scaling included
    double norm_eps = 0;
    bool tied_embeddings = false;  // lm_head is the embedding
    RopeConfig rope;
    LayerMap layer_map;        // whose keys and values each layer reads
    std::vector<int32_t> eos;  // each ends a text; may be empty
};

/// From a config.json, validated against the caps of model/files/limits.h. `what` names the source in messages.
/// Reads both spellings of the rotary part (rope_theta + rope_scaling, rope_parameters).
/// Errors: Exit::kData with the key, what it says and what is supported.
LlamaConfig parse_config(const Json& json, std::string_view what);

/// A generation_config.json, where there is one, has the last word on what ends a text. Errors: as parse_config.
void apply_generation_config(LlamaConfig& config, const Json& json, std::string_view what);

/// The checks that any source of a LlamaConfig must pass. Errors: Exit::kData.
void validate(const LlamaConfig& config, std::string_view what);

/// Frequencies of the head_dim / 2 pairs, and what cos and sin are multiplied by.
struct RopeTable {
    std::vector<float> inv_freq;
    float attention_scale = 1;
};

/// Float32 arithmetic in the order transformers does it. `length` (tokens) matters only for dynamic scaling.
RopeTable rope_table(const RopeConfig& rope, int64_t head_dim, int64_t length);
/// The same into `table`, whose memory is reused: dynamic scaling makes one a token.
void rope_table(const RopeConfig& rope, int64_t head_dim, int64_t length, RopeTable& table);

}  // namespace trireme
