#pragma once
/// Tokenizer of a tokenizer.model; libsentencepiece encodes.

#include <memory>
#include <string>
#include <string_view>

#include "model/tokenizer/special_files.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// `file` is the content of a tokenizer.model, `what` its name. Control, unknown and user-defined pieces in a text are
/// parsed here; the library encodes the text between them. The prefix space is added only at the start of a text.
/// Errors: Exit::kData.
std::unique_ptr<Tokenizer> tokenizer_from_spm(std::string_view file, const std::string& what,
                                              const SpecialFiles& files);

}  // namespace trireme
