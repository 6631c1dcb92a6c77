#pragma once
/// Parallel decoding of several sequences (--parallel): their number, and checks of other flags.

#include <cstdint>

#include "launch/run/engine.h"

namespace trireme {

/// Errors: Exit::kUsage if several sequences are requested together with a chain, an evicting cache, a session or a
/// snapshot; Exit::kConfig if several numbers are given where a run takes one.
void require_side_by_side(const Options& options);

/// The sequences that are to be decoded.
struct SideBySideAsked {
    int64_t context = 0, prompt_tokens = 0;  // of the longest one
    int64_t texts = 1;
    bool of_one_prompt = false;
};
/// The number of sequences that a run decodes in parallel: --parallel, at most the number of sequences. With auto, at
/// most as many as fit in memory, and at least one. The same on every rank; makes control calls.
int64_t texts_side_by_side(const Start& start, const RankGroup& rank_group, const Engine& engine,
                           const SideBySideAsked& asked);

}  // namespace trireme
