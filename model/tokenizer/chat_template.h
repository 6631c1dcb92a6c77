#pragma once
/// has_chat_template(): whether a model's files define how a conversation becomes a prompt. Trireme does not apply
/// templates; a warning says so after an empty answer.

#include <filesystem>

namespace trireme {

/// Returns whether there is a chat_template in tokenizer_config.json, a chat_template.jinja, or the key
/// tokenizer.chat_template in a GGUF file. `path`: as for load_tokenizer. Errors: as load_tokenizer, for files that
/// cannot be read.
bool has_chat_template(const std::filesystem::path& path);

}  // namespace trireme
