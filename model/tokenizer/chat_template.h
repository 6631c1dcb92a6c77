#pragma once
/// ChatTemplate: the Jinja text of a model's files that turns a conversation into a prompt (neighbours.md, section 1).
/// ChatRenderer (launch/run/chat) renders it.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

namespace trireme {

struct ChatTemplate {
    std::string where;                             // the file, for messages
    std::string source;                            // a list's "default"
    std::string with_tools;                        // a list's "tool_use", for requests with tools; empty: `source`
    std::map<std::string, std::string> variables;  // the special tokens that templates see: bos_token and others

    /// The template of a request.
    const std::string& of(bool has_tools) const { return has_tools && !with_tools.empty() ? with_tools : source; }
};

/// Reads the template of a model: chat_template.jinja, else the chat_template of tokenizer_config.json, or
/// tokenizer.chat_template of a GGUF file. `path`: as for load_tokenizer. Returns nothing if there is none. Errors: as
/// load_tokenizer, for files that cannot be read; Exit::kData for a template that is no text.
std::optional<ChatTemplate> read_chat_template(const std::filesystem::path& path);
/// Like read_chat_template(path), for a model with a tokenizer.json or tokenizer.model. `text_of` and `model`: as for
/// read_special_files.
std::optional<ChatTemplate> read_chat_template(
    const std::string& model,
    const std::function<std::optional<std::string>(const char* name, uint64_t most)>& text_of);

}  // namespace trireme
