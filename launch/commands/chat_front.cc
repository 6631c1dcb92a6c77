#include "launch/commands/chat_front.h"

#include <algorithm>
#include <unistd.h>

#include "launch/run/prompt.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {

ChatFront::ChatFront(const Options& o, const Tokenizer& tokenizer)
    : options_(o), tokenizer_(tokenizer), renderer_(o.tokenizer_path()), out_(STDOUT_FILENO) {}

void ChatFront::say(std::string_view line) {
    out_.write(fmt::format("{}{}\n", out_.last() == '\n' ? "" : "\n", line));
}

void ChatFront::end_answer(std::string_view why) {
    if (!why.empty() && terminal()) {
        say(why);
    } else if (out_.last() != '\n') {
        out_.write("\n");
    }
}

std::vector<int32_t> ChatFront::begin(const std::string& document) {
    turns_.emplace(renderer_, options_.system);
    first_.reset();
    if (document.empty()) return {};
    const std::string question = placeholder();
    const std::string text = turns_->text_of(document + "\n\n" + question, "the document");
    const size_t at = text.rfind(question);
    require(at != std::string::npos, Exit::kData, "the chat template changes a message: want one that keeps it");
    first_ = {.before = text.substr(0, at), .after = text.substr(at + question.size()), .ids = {}};
    first_->ids = encode_prompt(tokenizer_, first_->before, false);
    first_->read = std::max<size_t>(first_->ids.size(), kOpen) - kOpen;
    return {first_->ids.begin(), first_->ids.begin() + static_cast<std::ptrdiff_t>(first_->read)};
}

std::vector<int32_t> ChatFront::ask(const std::string& message) {
    undone_.emplace(*turns_, first_);
    if (!first_) return encode_prompt(tokenizer_, turns_->text_of(message, "the message"), false);
    const First first = *std::exchange(first_, std::nullopt);
    const auto read = static_cast<std::ptrdiff_t>(first.read);
    std::vector<int32_t> ids = encode_prompt(tokenizer_, first.before + message + first.after, false);
    if (std::ssize(ids) >= read && std::equal(ids.begin(), ids.begin() + read, first.ids.begin())) {
        return {ids.begin() + read, ids.end()};
    }
    log::debug("the question changes tokens of the document: it is tokenized alone");
    std::vector<int32_t> rest(first.ids.begin() + read, first.ids.end());
    ids = encode_prompt(tokenizer_, message + first.after, false);
    rest.insert(rest.end(), ids.begin(), ids.end());
    return rest;
}

void ChatFront::undo() {
    if (!undone_) return;
    turns_.emplace(undone_->first);
    first_ = std::move(undone_->second);
    undone_.reset();
}

void ChatFront::resume() {
    first_.reset();
    turns_.emplace(renderer_, options_.system);
    turns_->resume();
}

}  // namespace trireme
