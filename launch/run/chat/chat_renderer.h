#pragma once
/// ChatRenderer: a model's chat template, rendered as transformers renders it. A script with Python's jinja2 does it
/// (render.py), which starts at the first conversation and remains until destruction. Used on rank 0.

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "launch/run/chat/line_process.h"
#include "model/tokenizer/chat_template.h"

namespace trireme {

class ChatRenderer {
  public:
    static constexpr std::chrono::seconds kMostTime{10};  // templates take milliseconds

    /// Of the model, or tokenizer, at `path`. Its template is read when it is needed. `most`: the time of a prompt.
    explicit ChatRenderer(std::filesystem::path path, std::chrono::milliseconds most = kMostTime)
        : path_(std::move(path)), most_(most) {}

    /// A conversation: a JSON array of messages, objects with "role" and mostly "content"; tools, or null. Members are
    /// in the order of their source, which templates may print.
    struct Conversation {
        nlohmann::ordered_json messages, tools = {};
    };
    /// Returns the prompt: the rendered messages and the beginning of the model's answer. It is to be tokenized without
    /// adding special tokens. `where` names the conversation in messages. Errors: Exit::kData for messages of another
    /// form, tools that the template does not use, a template that fails; kConfig if the model has no template;
    /// kUnavailable without Python or jinja2, and for a template that takes too long; those of read_chat_template.
    std::string prompt_of(const Conversation& conversation, std::string_view where);

    /// The messages of a prompt: `system`, unless it is empty, and the user's `text`.
    static nlohmann::ordered_json messages_of(std::string_view system, std::string_view text);

  private:
    void start();
    nlohmann::json ask(const nlohmann::ordered_json& request, std::string_view where);
    void use(const std::string& source, std::string_view where);

    std::filesystem::path path_;
    std::chrono::milliseconds most_;
    ChatTemplate template_;  // `where` is empty: not read
    std::unique_ptr<LineProcess> script_;
    std::string used_;  // the source that the script has
};

}  // namespace trireme
