#pragma once
/// How many texts a run decodes side by side (--parallel), and what may stand beside that.

#include <cstdint>

#include "launch/run/engine.h"

namespace trireme {

/// Errors: Exit::kUsage where texts are to be decoded side by side, and by a chain, with a bounded cache, or as a
/// session; kConfig where several numbers are given of which a run takes one.
void require_side_by_side(const Options& options);

/// Texts that are to be decoded.
struct SideBySideAsked {
    int64_t context = 0, prompt_tokens = 0;  // of the longest one
    int64_t texts = 1;
    bool of_one_prompt = false;
};
/// Of --parallel's numbers the one that a run takes: no more than there are texts, and, with auto, than there is memory
/// for, one at least. The same on every rank; makes control calls.
int64_t texts_side_by_side(const Start& start, const Crew& crew, const Engine& engine, const SideBySideAsked& asked);

}  // namespace trireme
