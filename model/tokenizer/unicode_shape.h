#pragma once
/// Texts rewritten for PCRE2: valid UTF-8, with character categories of the Unicode version that tokenizers were made
/// with.

#include <string>
#include <string_view>

namespace trireme {

/// A copy of `text` of the same length in bytes, for matching only. Characters that PCRE2 10.42 (Unicode 14) puts in
/// another category than Oniguruma (Unicode 16) does, mostly because they are newer, become an older one of that
/// category; bytes that are not UTF-8 become U+0001, which is neither letter, number nor space.
std::string unicode_shape(std::string_view text);

}  // namespace trireme
