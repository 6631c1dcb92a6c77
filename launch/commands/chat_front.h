#pragma once
/// ChatFront: rank 0's part of `trireme chat`: the console, and the chat template's text of each turn.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launch/commands/session_turns.h"
#include "launch/report/output.h"
#include "launch/run/chat/console.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

class ChatFront {
  public:
    /// Both must outlive the object.
    ChatFront(const Options& options, const Tokenizer& tokenizer);

    /// Reads a line of the person. `waiting`: as Console::read.
    Console::Line read(const std::function<void()>& waiting) { return console_.read("> ", waiting); }
    bool terminal() const { return console_.terminal(); }
    /// Writes a part of an answer, or a line of its own.
    void write(std::string_view text) { out_.write(text); }
    void say(std::string_view line);
    /// Ends the answer's line. On a terminal it also shows why the answer ended, unless `why` is empty.
    void end_answer(std::string_view why);
    bool reader_gone() const { return out_.closed(); }

    /// Begins a conversation. Returns the ids to read before the first question: those of the document with what the
    /// template puts before it, without its last tokens. No ids without a document. Errors: as ChatTurns::text_of.
    std::vector<int32_t> begin(const std::string& document);
    /// The ids of a question. Errors: as ChatTurns::text_of; call undo() then.
    std::vector<int32_t> ask(const std::string& message);
    /// Restores the state before the last ask().
    void undo();
    /// Continues a conversation that was loaded. Errors: as ChatTurns::text_of.
    void resume();

  private:
    // The last tokens of a document may change when a question follows: they are read with it.
    static constexpr size_t kOpen = 16;
    /// The first turn of a conversation with a document: texts before and after the question, and the ids of the text
    /// before it, of which the first `read` are read before the question.
    struct First {
        std::string before, after;
        std::vector<int32_t> ids;
        size_t read = 0;
    };

    const Options& options_;
    const Tokenizer& tokenizer_;
    ChatRenderer renderer_;
    std::optional<ChatTurns> turns_;
    std::optional<First> first_;  // nothing after the first question, or without a document
    std::optional<std::pair<ChatTurns, std::optional<First>>> undone_;  // turns_ and first_ before the last ask()
    Console console_;
    TextOut out_;
};

}  // namespace trireme
