#pragma once
/// KV residency of a run: selects the layers whose keys and values are on chip, for the memory of the ranks.

#include <algorithm>
#include <string>
#include <vector>

#include "launch/flags/options.h"
#include "launch/run/rank_group.h"
#include "launch/run/spec_levels.h"
#include "model/footprint.h"
#include "runtime/device.h"

namespace trireme {

struct ResidencyChoice {
    PlanInput input;
    Machine machine;  // the least memory that any rank may use
    Plan plan;
    std::string line;                // for the log
    std::vector<std::string> table;  // detailed plan, for -v
};

/// Throws Exit::kOs. The message states the memory that the closest plan for `context` tokens lacks on `machine`, and
/// what would fit: `largest`, the largest context in tokens (0: none), and larger values of --device-memory and
/// --host-memory if `there`, the machine without these limits, has that much.
[[noreturn]] void refuse_plan(const PlanInput& input, const Machine& machine, const Machine& there, int64_t context,
                              int64_t largest, const Options& o);

/// Returns a size as flags take it, "24323M", rounded up from `bytes`.
std::string as_size(size_t bytes);

/// The memory that a rank may use on `device` and its host: what the flags allow, else what is free. Memory of this
/// process that is already allocated on the device, as weights are, counts as free, since every plan includes it.
Machine own_machine(const Options& o, const Device& device);

/// Refuses --link-us without --link-gbps (Exit::kConfig).
void check_link(const Options& o);

/// Chooses the plan, the same on every rank. The levels of `proposing` are on the device; with an evicting policy
/// (`eviction`) all KV is. Of options.residency only `ring` and `span_bytes` are read. All ranks return, or all throw:
/// Exit::kOs with the largest context that would fit; kConfig for more layers than there are. Makes control calls.
ResidencyChoice choose_residency(const Options& o, const LlamaConfig& config, DType weights,
                                 const LevelOptions& options, const Device& device, int threads,
                                 const RankGroup& rank_group, const EvictionShape& eviction,
                                 const SpecLevels* proposing = nullptr);

/// The number of prompt tokens, in whole tiles, that samples share, if each sample may have `context` tokens.
constexpr int64_t common_tokens(int64_t prompt_tokens, int64_t context) {
    return std::min(prompt_tokens, context - 1) / kTileTokens * kTileTokens;
}

/// Layers on chip if the number of sequences is to be maximal: all, unless a number is requested.
constexpr int64_t layers_beside_texts(int64_t asked) {
    return asked == PlanInput::kAuto ? PlanInput::kAll : asked;
}

/// The most parallel sequences, up to `at_most`, that fit in memory; 0: not even one. Ignores options.sequences. The
/// result is the same on every rank. Makes control calls.
int64_t most_texts(const Options& o, const LlamaConfig& config, DType weights, const LevelOptions& options,
                   const Device& device, int threads, const RankGroup& rank_group, int64_t at_most);

}  // namespace trireme
