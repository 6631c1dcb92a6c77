#pragma once
/// Reader of the tokenizer inside a GGUF file.

#include <filesystem>

#include "model/files/gguf_file.h"
#include "model/tokenizer/gguf_tokenizer.h"

namespace trireme {

/// Reads the metadata only. Types are checked here, content by make_tokenizer().
/// Errors: Exit::kNoInput, kPermission, kData (not a GGUF file, a key of a wrong type, no tokenizer).
GgufTokenizer read_gguf_tokenizer(const std::filesystem::path& path);
GgufTokenizer read_gguf_tokenizer(const ByteSource& source);

/// Like the above, from metadata that was read before.
GgufTokenizer gguf_tokenizer(const GgufMetadata& metadata);

}  // namespace trireme
