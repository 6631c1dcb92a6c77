#pragma once
/// Translation of the regex dialect of tokenizer.json.

#include <string>
#include <string_view>

namespace trireme {

/// Returns `pattern` for PCRE2 (UTF, UCP), which then matches what Oniguruma's default syntax matches. It accepts only
/// constructs whose meaning is known to be the same: literals, classes, \p{..}, \s \d \w and their negations, groups
/// that capture nothing of interest, look-around, alternatives, all quantifiers. Errors: Exit::kData naming `what` and
/// the construct.
std::string pcre2_from_oniguruma(std::string_view pattern, std::string_view what);

}  // namespace trireme
