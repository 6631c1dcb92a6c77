#pragma once
/// What is asked of an engine: the ids to read, and how far it may have to go.

#include <cstdint>
#include <vector>

#include "launch/commands/commands.h"
#include "launch/run/crew.h"
#include "launch/run/engine.h"

namespace trireme {

struct Request {
    std::vector<int32_t> ids;  // the prompt's, or those to be scored; the same on every rank
    int64_t positions = 0;     // that it may need: KV memory is for these, not for all that the context would allow
};

/// Rank 0 reads the prompt, from stdin too, and tells the others; ranks pass or leave together. Errors, agreed: of the
/// source, and Exit::kConfig for ids outside the vocabulary or more than fit the engine's longest context.
Request read_request(const Start& start, const Crew& crew, const Engine& engine);

}  // namespace trireme
