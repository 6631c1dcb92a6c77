#pragma once
/// tokenizer_from_spm(): makes the tokenizer of a tokenizer.model, with which libsentencepiece encodes.

#include <memory>
#include <string>
#include <string_view>

#include "model/tokenizer/special_files.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// `file` is the content of a tokenizer.model, `what` its name; `files` were read next to it. Control, unknown and
/// user-defined pieces in a text become their ids; the library encodes the text between them. The prefix space is added
/// at the start of a text; with files.legacy also after these pieces. Errors: Exit::kData.
std::unique_ptr<Tokenizer> tokenizer_from_spm(std::string_view file, const std::string& what,
                                              const SpecialFiles& files);

}  // namespace trireme
