#pragma once
/// unicode_shape(): a text rewritten for PCRE2 (Regex): valid UTF-8, with character categories of the Unicode version
/// that tokenizers were made with.

#include <string>
#include <string_view>

namespace trireme {

/// Returns a copy of `text` of the same length in bytes, for matching only: positions of matches are valid in both.
/// Some characters, mostly new ones, have another category in PCRE2 10.42 (Unicode 14) than in Oniguruma (Unicode 16).
/// They become an older character of Oniguruma's category. Bytes that are not UTF-8 become U+0001, which is neither
/// letter, number nor space.
std::string unicode_shape(std::string_view text);

}  // namespace trireme
