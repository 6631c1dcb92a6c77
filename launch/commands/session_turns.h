#pragma once
/// The input of generate --session: a JSON object a line, each of one turn or more.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

constexpr size_t kMostBytesOfSession = size_t{1} << 30;  // of the file

struct SessionTurn {
    std::string where;  // "turns.jsonl:3"
    std::string text;
};

/// The turns of `text`, which `name` holds: of each line its prompt or text, or MT-bench's list of turns, between the
/// words of that bench. Errors: Exit::kData for a line that holds none of these.
std::vector<SessionTurn> parse_session(std::string_view text, const std::string& name);

}  // namespace trireme
