#pragma once
/// Request of generate to an engine: the prompt's ids, and the number of positions to load the engine for.

#include <cstdint>
#include <string>
#include <vector>

#include "launch/run/engine.h"
#include "launch/run/rank_group.h"
#include "launch/run/start.h"

namespace trireme {

struct Request {
    std::string text;          // of the prompt; rank 0 only, and empty if it was given as ids
    std::vector<int32_t> ids;  // of the prompt; the same on every rank
    int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
    int64_t positions = 0;  // the most tokens of its sequence: KV memory is allocated for these
};

/// The most tokens of a sequence whose prompt of `prompt` tokens is continued by `n_predict` tokens (-1: to the end of
/// the context). `longest`: the context in tokens, which limits the result.
int64_t positions_of(int64_t prompt, int64_t n_predict, int64_t longest);

/// Rank 0 reads the prompt (file or stdin) and sends its ids to the others. All ranks pass, or all throw: errors of
/// the source, and Exit::kConfig for ids outside the vocabulary or more than the engine's longest context.
Request read_request(const Start& start, const RankGroup& rank_group, const Engine& engine);

}  // namespace trireme
