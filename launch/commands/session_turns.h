#pragma once
/// Input of generate --session: one JSON object per line, with one or more conversation turns.

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

/// Parses the turns of `text`, the content of `name`. Each line has "prompt", "text", or MT-bench's list of "turns",
/// which are put into that bench's template. Errors: Exit::kData for a line with none of these.
std::vector<SessionTurn> parse_session(std::string_view text, const std::string& name);

}  // namespace trireme
