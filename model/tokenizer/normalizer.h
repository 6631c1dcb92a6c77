#pragma once
/// Normalizer: a change of a text before it is cut into words (the `normalizer` of tokenizer.json).

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// One change of a whole text. Bytes that are not UTF-8 are unchanged. Errors: Exit::kData if a text grows more than 32
/// times.
using Normalizer = std::function<std::string(std::string)>;

/// NFC, NFD, NFKC and NFKD.
Normalizer unicode_form(bool composed, bool compatibility);
/// Puts `prefix` in front of a text that is not empty.
Normalizer prepend(std::string prefix);
/// Replaces all occurrences of `from`, which is not empty, left to right.
Normalizer replace_text(std::string from, std::string to);
/// Replaces all matches of a pattern (Oniguruma's dialect; `what` names it in messages). Errors: as Regex.
Normalizer replace_matches(std::string_view pattern, std::string to, std::string_view what);
/// Removes white space at the left and the right end.
Normalizer strip(bool left, bool right);

/// Applies all steps; the limit of growth holds for all of them together.
std::string normalized(const std::vector<Normalizer>& steps, std::string text);

}  // namespace trireme
