#pragma once
/// Whether a model's files say how a conversation is written as a prompt.

#include <filesystem>

namespace trireme {

/// A chat_template in tokenizer_config.json, a chat_template.jinja, or tokenizer.chat_template of a GGUF. `path`: as
/// load_tokenizer takes it. Errors: as load_tokenizer, of files that cannot be read.
bool has_chat_template(const std::filesystem::path& path);

}  // namespace trireme
