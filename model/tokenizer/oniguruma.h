#pragma once
/// The regex dialect of tokenizer.json.

#include <string>
#include <string_view>

namespace trireme {

/// `pattern` as PCRE2 (UTF, UCP) has to read it to match what Oniguruma's default syntax matches. Only what is known to
/// mean the same afterwards is let through: literals, classes, \p{..}, \s \d \w and their negations, groups that
/// capture nothing of interest, look-around, alternatives, all quantifiers. Errors: Exit::kData naming `what` and the
/// construct.
std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view what);

}  // namespace trireme
