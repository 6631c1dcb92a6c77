#pragma once
/// The tokenizer of a folder or store as the metadata of a GGUF file.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "model/files/gguf_writer.h"
#include "model/tokenizer/gguf_tokenizer.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// Returns a file of the model by its name, nothing if there is none. Errors: Exit::kData beyond `most` bytes.
using TextOf = std::function<std::optional<std::string>(const char* name, uint64_t most)>;

/// Returns the tokenizer of tokenizer.json or tokenizer.model in GGUF's terms, with `vocab` tokens (the rows of the
/// embedding); those that the files do not name are unused. `own` is the tokenizer that load_tokenizer() makes of these
/// files; the result gives its ids for a text of many kinds of characters and for the text of every token. From
/// tokenizer.json: byte-level BPE whose `pre` is known, and SentencePiece-like BPE whose merges are in the order of
/// their results. Errors: Exit::kData for any other one; as the readers of these files.
GgufTokenizer export_tokenizer(const Tokenizer& own, const TextOf& text_of, int64_t vocab, const std::string& what);

/// The entries of a tokenizer, and of the chat template that the files have, if any.
GgufEntries tokenizer_entries(const GgufTokenizer& tokenizer, const TextOf& text_of);

}  // namespace trireme
