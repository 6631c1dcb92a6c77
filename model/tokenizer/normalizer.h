#pragma once
/// What happens to a text before it is cut: the `normalizer` of tokenizer.json.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// One rewriting of a whole text. Bytes that are not UTF-8 stay as and where they are. Errors: Exit::kData where a text
/// grows more than 32 times.
using Normalizer = std::function<std::string(std::string)>;

/// NFC, NFD, NFKC and NFKD.
Normalizer unicode_form(bool composed, bool compatibility);
/// `prefix` in front, except of nothing.
Normalizer prepend(std::string prefix);
/// All occurrences of `from`, which is not empty, left to right.
Normalizer replace_text(std::string from, std::string to);
/// All matches of a pattern (Oniguruma's dialect; `what` names it in messages).
Normalizer replace_matches(std::string_view pattern, std::string to, std::string_view what);
/// White space at the ends goes.
Normalizer strip(bool left, bool right);

/// All steps, which together are held to the same growth.
std::string normalized(const std::vector<Normalizer>& steps, std::string text);

}  // namespace trireme
