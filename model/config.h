#pragma once
/// What a checkpoint says about itself: shapes, rotary embedding, whose KV each layer reads, what ends a text.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/json.h"
#include "model/layer_map.h"
#include "model/rope.h"

namespace trireme {

struct LlamaConfig {
    std::string arch;  // its 'model_type': "llama"
    std::string name;  // for people; may be empty
    int64_t n_layers = 0, dim = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, ffn_dim = 0, vocab = 0;
    int64_t context = 0;  // tokens that the checkpoint supports, rotary scaling included
    double norm_eps = 0;
    bool tied_embeddings = false;  // lm_head is the embedding
    RopeConfig rope;
    LayerMap layer_map;          // whose keys and values each layer reads
    int64_t passes = 9;          // of a prompt over layers that read later ones: what the model was trained with
    bool no_diagonal = false;    // no token sees itself, in any layer ('force_nodiag')
    int64_t sliding_window = 0;  // tokens that a windowed layer sees, itself included
    int32_t bos = -1;            // of a GGUF, for converting it; -1: none, or config.json says it
    std::vector<int32_t> eos;    // each ends a text; may be empty

    /// Whether a token does not see itself in this layer: its keys and values come from a later one.
    bool strict(LayerIndex layer) const { return no_diagonal || layer_map.upward(layer); }
};

/// From a config.json, validated against the caps of model/files/limits.h. `what` names the source in messages.
/// Reads both spellings of the rotary part (rope_theta + rope_scaling, rope_parameters).
/// Errors: Exit::kData with the key, what it says and what is supported.
LlamaConfig parse_config(const Json& json, std::string_view what);

/// Applies a generation_config.json: if it names tokens that end a text, they replace the config's. Errors: as
/// parse_config.
void apply_generation_config(LlamaConfig& config, const Json& json, std::string_view what);

/// The checks that any source of a LlamaConfig must pass. Errors: Exit::kData.
void validate(const LlamaConfig& config, std::string_view what);

}  // namespace trireme
