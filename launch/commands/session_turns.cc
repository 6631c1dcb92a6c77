#include "launch/commands/session_turns.h"

#include <fmt/format.h>

#include "launch/flags/text_file.h"
#include "model/files/json.h"
#include "runtime/error.h"

namespace trireme {
namespace {

void add_turns(std::vector<SessionTurn>& all, std::string_view line, const std::string& where) {
    const Json json = parse_json(line, where, {.depth = 8, .bytes = kMostBytesOfSession});
    require(json.is_object(), Exit::kData, "{}: holds {}, want an object with prompt, text or turns", where,
            json.type_name());
    for (const char* key : {"prompt", "text"}) {
        const auto found = json.find(key);
        if (found == json.end()) continue;
        require(found->is_string(), Exit::kData, "{}: {} is {}, want a text", where, key, found->type_name());
        all.push_back({where, found->get<std::string>()});
        return;
    }
    const auto turns = json.find("turns");
    require(turns != json.end() && turns->is_array(), Exit::kData,
            "{}: has neither prompt nor text nor a list of turns", where);
    for (const Json& turn : *turns) {
        require(turn.is_string(), Exit::kData, "{}: a turn is {}, want a text", where, turn.type_name());
        all.push_back({where, "USER: " + turn.get<std::string>() + "\n\nASSISTANT: "});
    }
}

}  // namespace

std::vector<SessionTurn> parse_session(std::string_view text, const std::string& name) {
    std::vector<SessionTurn> all;
    for_lines(text,
              [&](std::string_view line, int64_t number) { add_turns(all, line, fmt::format("{}:{}", name, number)); });
    return all;
}

}  // namespace trireme
