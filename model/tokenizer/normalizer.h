#pragma once
/// Normalizer: a change of a text before it is cut into words (the `normalizer` of tokenizer.json). Decoders also use
/// replacements.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// One change: returns the changed text. The text may have bytes that are not UTF-8.
using Normalizer = std::function<std::string(std::string)>;

/// Returns the normalisation NFC (composed), NFD, NFKC (composed, compatibility) or NFKD (compatibility).
Normalizer unicode_form(bool composed, bool compatibility);
/// Puts `prefix` in front of a text that is not empty.
Normalizer prepend(std::string prefix);
/// Replaces all occurrences of `from`, which is not empty, left to right.
Normalizer replace_text(std::string from, std::string to);
/// Replaces all matches of a pattern (Oniguruma's dialect; `what` names it in messages). Errors: as Regex.
Normalizer replace_matches(std::string_view pattern, std::string to, std::string_view what);
/// Removes white space at the left and the right end.
Normalizer strip(bool left, bool right);

/// Applies all steps in order. Errors: Exit::kData if the text grows to more than 32 times its size plus 1 KiB.
std::string normalized(const std::vector<Normalizer>& steps, std::string text);

}  // namespace trireme
