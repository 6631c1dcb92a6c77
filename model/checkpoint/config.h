#pragma once
/// LlamaConfig: a checkpoint's family, shapes, rotary embedding, layer map and end-of-sequence tokens.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/checkpoint/architecture.h"
#include "model/checkpoint/layer_map.h"
#include "model/checkpoint/rope.h"
#include "model/files/json.h"

namespace trireme {

struct LlamaConfig {
    const Architecture* family = &architectures().front();
    std::string name;  // for display; may be empty
    int64_t n_layers = 0, dim = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, ffn_dim = 0, vocab = 0;
    int64_t context = 0;  // tokens that the checkpoint supports, rotary scaling included
    double norm_eps = 0;
    bool tied_embeddings = false;  // lm_head is the embedding
    bool qkv_bias = false, o_bias = false;
    RopeConfig rope;
    LayerMap layer_map;          // whose keys and values each layer reads
    int64_t passes = 9;          // passes of a prompt over layers that read later ones, as in training
    bool no_diagonal = false;    // no token sees itself, in any layer ('force_nodiag')
    int64_t sliding_window = 0;  // tokens that a windowed layer sees, the query's own included
    int32_t bos = -1;            // from a GGUF, for its conversion; -1: none, or config.json has it
    std::vector<int32_t> eos;    // each ends a sequence; may be empty

    /// Whether tokens do not see themselves in this layer: always if it reads a later layer's keys and values.
    bool strict(LayerIndex layer) const { return no_diagonal || layer_map.upward(layer); }
};

/// Parses a config.json and validates it against the limits of model/files/limits.h. `what` names the source in
/// messages. Reads both spellings of the rotary settings (rope_theta + rope_scaling, rope_parameters).
/// Errors: Exit::kData with the key, its value and the supported values.
LlamaConfig parse_config(const Json& json, std::string_view what);

/// Applies a generation_config.json: its end-of-sequence tokens, if it has any, replace the config's. Errors: as
/// parse_config.
void apply_generation_config(LlamaConfig& config, const Json& json, std::string_view what);

/// Runs the checks that every LlamaConfig must pass, whatever its source. Errors: Exit::kData.
void validate(const LlamaConfig& config, std::string_view what);

}  // namespace trireme
