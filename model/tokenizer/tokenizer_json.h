#pragma once
/// Reader of Hugging Face's tokenizer.json: byte-pair encoding of bytes or of characters.

#include <memory>
#include <string>
#include <string_view>

#include "model/tokenizer/special_files.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// `text` is the file's content, `what` its name. Errors: Exit::kData naming the component that is wrong or unknown.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view text, const std::string& what,
                                               const SpecialFiles& files);

}  // namespace trireme
