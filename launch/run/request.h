#pragma once
/// Request to an engine: the ids to read, and the positions that they require.

#include <cstdint>
#include <vector>

#include "launch/commands/commands.h"
#include "launch/run/engine.h"
#include "launch/run/rank_group.h"

namespace trireme {

struct Request {
    std::vector<int32_t> ids;  // of the prompt, or to be scored; the same on every rank
    int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
    int64_t positions = 0;  // the most that it uses: KV memory is allocated for these, not for the whole context
};

/// The positions of a prompt that is continued by `n_predict` tokens (-1: to the end of the context `longest`).
int64_t positions_of(int64_t prompt, int64_t n_predict, int64_t longest);

/// Rank 0 reads the prompt (file or stdin) and sends its ids to the others. All ranks pass, or all throw: errors of
/// the source, and Exit::kConfig for ids outside the vocabulary or more than the engine's longest context.
Request read_request(const Start& start, const RankGroup& rank_group, const Engine& engine);

}  // namespace trireme
