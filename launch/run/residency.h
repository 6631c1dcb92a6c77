#pragma once
/// KV residency of a run: selects the layers whose keys and values are on chip, so that they fit the ranks' memory.
/// Engine::load() uses it, and `trireme plan` some parts.

#include <algorithm>
#include <string>
#include <vector>

#include "launch/flags/options.h"
#include "launch/run/rank_group.h"
#include "launch/run/spec_levels.h"
#include "model/footprint.h"
#include "runtime/device.h"

namespace trireme {

/// The result: a plan that fits, with its inputs.
struct ResidencyChoice {
    PlanInput input;
    Machine machine;  // the least memory that any rank may use
    Plan plan;
    std::string line;                // summary for the log
    std::vector<std::string> table;  // detailed plan, for -v
};

/// Throws Exit::kOs for a run that does not fit. The message states the memory that the closest plan for `context`
/// tokens lacks on `machine`, and what would fit. `largest`: the largest context in tokens that fits (0: none).
/// `there`: the machine without the limits of --device-memory and --host-memory. If it has enough, the message names
/// larger values of these flags.
[[noreturn]] void refuse_plan(const PlanInput& input, const Machine& machine, const Machine& there, int64_t context,
                              int64_t largest, const Options& o);

/// Returns `bytes` as a value of --device-memory, rounded up: "24323M".
std::string as_size(size_t bytes);

/// The memory that this rank may use on `device` and its host: what the flags allow, else what is free. Device memory
/// that this process has already allocated counts as free, since every plan includes it (the weights).
Machine own_machine(const Options& o, const Device& device);

/// Refuses --link-us without --link-gbps (Exit::kConfig).
void check_link(const Options& o);

/// The model's level and what shares memory with it.
struct LevelToPlace {
    const Options& flags;
    const LlamaConfig& config;
    const WeightFormat& weights;
    const LevelOptions& options;  // of its residency only `ring` and `span_bytes` are read
    const Device& device;
    int threads;                            // of this rank
    const EvictionShape& eviction;          // with an evicting policy all KV is on the device
    const SpecLevels* proposing = nullptr;  // levels that are also on the device; null: none
};

/// Chooses the plan, the same on every rank. All ranks return, or all throw: refuse_plan()'s error if nothing fits;
/// Exit::kConfig for more layers than there are, or for --link-gbps on a GPU. Makes control calls.
ResidencyChoice choose_residency(const LevelToPlace& level, const RankGroup& rank_group);

/// The number of prompt tokens, in whole tiles, that samples of one prompt share (KvShape::common), if each sample may
/// have `context` tokens.
constexpr int64_t common_tokens(int64_t prompt_tokens, int64_t context) {
    return std::min(prompt_tokens, context - 1) / kTileTokens * kTileTokens;
}

/// Layers on chip with --parallel auto: all if `asked` (--kv-on-chip) is auto, else `asked`.
constexpr int64_t layers_beside_texts(int64_t asked) {
    return asked == PlanInput::kAuto ? PlanInput::kAll : asked;
}

/// The most parallel sequences (--parallel auto), up to `at_most`, that fit in memory; 0: not even one. Ignores
/// options.sequences. The result is the same on every rank. Makes control calls.
int64_t most_texts(const LevelToPlace& level, const RankGroup& rank_group, int64_t at_most);

}  // namespace trireme
