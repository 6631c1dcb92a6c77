#include "launch/commands/session_turns.h"

#include <fmt/format.h>

#include "launch/flags/text_file.h"
#include "launch/run/once.h"
#include "model/files/json.h"
#include "runtime/error.h"
#include "runtime/log.h"
#include "runtime/random.h"

namespace trireme {
namespace {

void add_turns(std::vector<SessionTurn>& all, std::string_view line, const std::string& where, bool chat) {
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
        const auto message = turn.get<std::string>();
        all.push_back({where, chat ? message : "USER: " + message + "\n\nASSISTANT: "});
    }
}

}  // namespace

std::vector<SessionTurn> parse_session(std::string_view text, const std::string& name, bool chat) {
    std::vector<SessionTurn> all;
    for_lines(text, [&](std::string_view line, int64_t number) {
        add_turns(all, line, fmt::format("{}:{}", name, number), chat);
    });
    return all;
}

void require_for_turns(const Options& o, std::string_view who) {
    require(!o.spec.has(Part::kH2o), Exit::kUsage,
            "{} with --spec {}: heavy hitters are chosen for one prompt, not for turns; want another chain", who,
            text_of(o.spec));
    require(o.eviction.budget_share == 0, Exit::kConfig,
            "{} with --kv-window {}: a fraction requires a single prompt; want a number of tokens", who,
            o.eviction.budget_share);
}

std::string placeholder() {
    return fmt::format("Trireme{:016x}", drawn_by_system("a chat template's placeholder"));
}

ChatTurns::ChatTurns(ChatRenderer& chat, const std::string& system) : chat_(chat), mark_(placeholder()) {
    if (!system.empty()) messages_.push_back({{"role", "system"}, {"content", system}});
}

// What a template puts between an answer and the next message does not depend on earlier messages.
void ChatTurns::resume() {
    text_of("Hello", "the conversation");
}

// The answers are not known when the turns are read, and templates may trim them. A placeholder replaces each answer;
// the turn's text is what follows the last one.
std::string ChatTurns::text_of(std::string_view message, std::string_view where) {
    nlohmann::ordered_json messages = messages_;
    messages.push_back({{"role", "user"}, {"content", message}});
    std::string prompt = chat_.prompt_of({messages}, where), turn = prompt;
    if (answers_ > 0) {
        const std::string last = fmt::format("{}n{}", mark_, answers_ - 1);
        const size_t found = prompt.rfind(last);
        require(found != std::string::npos, Exit::kData,
                "{}: the chat template omits earlier answers; want one that keeps them in a conversation", where);
        turn = prompt.substr(found + last.size());
        if (!prompt.starts_with(before_) && first_time("changed turns")) {
            log::warn(
                "the chat template changes earlier turns of the conversation; the KV cache keeps them as they were "
                "read");
        }
    }
    const std::string answer = fmt::format("{}n{}", mark_, answers_++);
    messages.push_back({{"role", "assistant"}, {"content", answer}});
    messages_ = std::move(messages);
    before_ = std::move(prompt) + answer;
    return turn;
}

}  // namespace trireme
