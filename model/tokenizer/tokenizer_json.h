#pragma once
/// tokenizer_from_json(): makes the tokenizer of a Hugging Face tokenizer.json, if that is byte-pair encoding.

#include <memory>
#include <string>
#include <string_view>

#include "model/tokenizer/special_files.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// Returns a BpeTokenizer. `text` is the file's content, `what` its name; `files` were read next to it. Errors:
/// Exit::kData naming the component that is wrong or unknown.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view text, const std::string& what,
                                               const SpecialFiles& files);

}  // namespace trireme
