#pragma once
/// Input of generate --session: the user's turns of a conversation, from JSON lines with one or more turns each.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "launch/run/chat/chat_renderer.h"

namespace trireme {

constexpr size_t kMostBytesOfSession = size_t{1} << 30;  // of the file

struct SessionTurn {
    std::string where;  // "turns.jsonl:3", for messages; turns of one line share it
    std::string text;
};

/// Parses `text`, the content of the file `name`; returns all turns in order. A line has "prompt" or "text", which is
/// one turn, or MT-bench's list of "turns", each of which becomes "USER: ...\n\nASSISTANT: " unless a chat template
/// will be applied (`chat`). Errors: Exit::kData for a line with none of these.
std::vector<SessionTurn> parse_session(std::string_view text, const std::string& name, bool chat);

/// Checks that settings do not depend on one prompt. `who` begins the messages. Errors: Exit::kUsage, kConfig.
void require_for_turns(const Options& options, std::string_view who);

/// Returns a random word that no text has, in place of a text that is not known yet.
std::string placeholder();

/// The chat template's text of conversations, turn by turn: what stands between two answers of the model.
class ChatTurns {
  public:
    /// `system`: the system message; empty: none. `chat` must outlive the object.
    ChatTurns(ChatRenderer& chat, const std::string& system);

    /// Returns the text that a user's message adds to a conversation: the end of the last answer, if there was one, the
    /// message, and the beginning of the next answer. Warns once if the template changes earlier turns: the cache then
    /// keeps what it has read. Errors: as ChatRenderer::prompt_of; Exit::kData if the template omits earlier answers.
    /// Then nothing has changed.
    std::string text_of(std::string_view message, std::string_view where);
    /// Restores the state after a conversation whose messages are not known.
    void resume();

  private:
    ChatRenderer& chat_;
    std::string mark_;  // prefix of the placeholders of answers
    nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
    std::string before_;  // the last prompt, and the placeholder of its answer
    int64_t answers_ = 0;
};

}  // namespace trireme
