#pragma once
/// Which layers' keys and values a run keeps on the device: chooses the plan for the memory that its ranks have.

#include <algorithm>
#include <string>
#include <vector>

#include "launch/flags/options.h"
#include "launch/run/crew.h"
#include "launch/run/spec_levels.h"
#include "model/footprint.h"
#include "runtime/device.h"

namespace trireme {

struct ResidencyChoice {
    PlanInput input;
    Machine machine;  // what the rank that has least may use
    Plan plan;
    std::string line;                // for the log
    std::vector<std::string> table;  // what goes where, for those who ask
};

/// Throws Exit::kOs. The message says what the closest plan for `context` tokens lacks on `machine`, and what would
/// fit: `largest`, the largest context in tokens (0: none), and larger values of --device-memory and --host-memory
/// where `there`, the machine without these limits, has as much.
[[noreturn]] void refuse_plan(const PlanInput& input, const Machine& machine, const Machine& there, int64_t context,
                              int64_t largest, const Options& o);

/// "24323M", as flags take sizes: not less than `bytes`.
std::string as_size(size_t bytes);

/// What a rank may use of `device` and of its host: what flags allow, else what is free. Weights that are on the device
/// already are part of every plan, and count as free.
Machine own_machine(const Options& o, const Device& device);

/// --link-us without --link-gbps is a mistake (Exit::kConfig).
void check_link(const Options& o);

/// Chooses the plan, the same on every rank; what `proposing` wants will be on the device, too; with a `bounded` policy
/// all of it is. Of options.residency only `ring` and `span_bytes` are read. All ranks return, or all throw: Exit::kOs
/// with the largest context that would fit; kConfig for more layers than there are. Makes control calls.
ResidencyChoice choose_residency(const Options& o, const LlamaConfig& config, DType weights,
                                 const LevelOptions& options, const Device& device, int threads, const Crew& crew,
                                 const BoundedShape& bounded, const SpecLevels* proposing = nullptr);

/// Of a prompt's tokens those that samples of it share, in whole tiles, where each may have `context` tokens.
constexpr int64_t common_tokens(int64_t prompt_tokens, int64_t context) {
    return std::min(prompt_tokens, context - 1) / kTileTokens * kTileTokens;
}

/// Layers on chip where as many texts as possible are to find room: all, unless it is said how many.
constexpr int64_t layers_beside_texts(int64_t asked) {
    return asked == PlanInput::kAuto ? PlanInput::kAll : asked;
}

/// The most texts side by side, up to `at_most`, for which there is memory; 0: not even for one. Of options.sequences
/// nothing is read. The same on every rank; makes control calls.
int64_t most_texts(const Options& o, const LlamaConfig& config, DType weights, const LevelOptions& options,
                   const Device& device, int threads, const Crew& crew, int64_t at_most);

}  // namespace trireme
