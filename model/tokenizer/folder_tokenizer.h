#pragma once
/// The tokenizer of a GGUF file as the files of a model folder, which transformers reads.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/tokenizer/chat_template.h"
#include "model/tokenizer/gguf_tokenizer.h"

namespace trireme {

/// Returns files by name: tokenizer.json for byte-level BPE ("gpt2"), tokenizer.model for "llama", and
/// tokenizer_config.json with special tokens and the chat template. Their tokenizer gives the ids of
/// make_tokenizer(gguf) for a text of many kinds of characters and for the text of every token. Errors: as
/// make_tokenizer; Exit::kData if ids differ.
std::vector<std::pair<std::string, std::string>> folder_tokenizer(const GgufTokenizer& gguf,
                                                                  const std::optional<ChatTemplate>& chat);

}  // namespace trireme
