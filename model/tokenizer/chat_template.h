#pragma once
/// Detection of a chat template, with which a model's files define how a conversation becomes a prompt.

#include <filesystem>

namespace trireme {

/// Whether there is a chat_template in tokenizer_config.json, a chat_template.jinja, or tokenizer.chat_template of a
/// GGUF. `path`: as for load_tokenizer. Errors: as load_tokenizer, for files that cannot be read.
bool has_chat_template(const std::filesystem::path& path);

}  // namespace trireme
