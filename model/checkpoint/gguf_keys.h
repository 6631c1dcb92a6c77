#pragma once
/// The metadata and rotary tensors that a GGUF file of a config has: the inverse of gguf_config().

#include <string>
#include <vector>

#include "model/checkpoint/config.h"
#include "model/files/gguf_writer.h"

namespace trireme {

/// The family whose GGUF files have models of this config: its own, or Llama for families without a name there.
const Architecture& gguf_family(const LlamaConfig& config);

/// 'general.architecture', and everything under the family's name. Errors: Exit::kUsage for what GGUF cannot state: a
/// layer map, windows of a family whose files have none, dynamic scaling, YaRN without rounded ends.
GgufEntries gguf_keys(const LlamaConfig& config);

/// A tensor of rotary divisors.
struct GgufFactors {
    std::string name;  // "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"
    std::vector<float> values;
};
std::vector<GgufFactors> gguf_factors(const LlamaConfig& config);

}  // namespace trireme
