#pragma once
/// Input of generate --session: the user's turns of a conversation, from JSON lines with one or more turns each.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

constexpr size_t kMostBytesOfSession = size_t{1} << 30;  // of the file

struct SessionTurn {
    std::string where;  // "turns.jsonl:3", for messages; turns of one line share it
    std::string text;
};

/// Parses `text`, the content of the file `name`; returns all turns in order. A line has "prompt" or "text", which is
/// one turn, or MT-bench's list of "turns", each of which becomes "USER: ...\n\nASSISTANT: ". Errors: Exit::kData for a
/// line with none of these.
std::vector<SessionTurn> parse_session(std::string_view text, const std::string& name);

}  // namespace trireme
