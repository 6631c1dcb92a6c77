#pragma once
/// Parallel decoding of several sequences (--parallel): their number, and checks of other flags.

#include <cstdint>

#include "launch/run/engine.h"

namespace trireme {

/// Errors: Exit::kUsage if several sequences are requested together with a session or a snapshot; Exit::kConfig if
/// several numbers are given where a run takes one.
void require_side_by_side(const Options& options);

/// The sequences to decode.
struct SideBySideAsked {
    int64_t context = 0, prompt_tokens = 0;  // most tokens of a sequence, and of a prompt
    int64_t texts = 1;                       // number of sequences in all
    bool of_one_prompt = false;              // they are samples of one prompt
};
/// The number of sequences that a run decodes in parallel: --parallel, but at most `asked.texts`. With --parallel auto
/// it is what fits in memory, and at least one. The same on every rank; makes control calls.
int64_t texts_side_by_side(const Start& start, const RankGroup& rank_group, const Engine& engine,
                           const SideBySideAsked& asked);

}  // namespace trireme
