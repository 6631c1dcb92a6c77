#pragma once
/// pcre2_from_oniguruma(): translates the regex dialect of tokenizer.json for PCRE2, which Regex uses.

#include <string>
#include <string_view>

namespace trireme {

/// Returns a pattern with which PCRE2 (UTF, UCP) matches what `pattern` matches in Oniguruma's default syntax. It
/// accepts only constructs whose meaning is known to be the same: literals, classes, \p{..}, \s \d \w and their
/// negations, groups, look-around, alternatives, all quantifiers. Groups no longer capture. Errors: Exit::kData naming
/// `what` (the source) and the construct.
std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view what);

}  // namespace trireme
