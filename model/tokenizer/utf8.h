#pragma once
/// Functions for UTF-8 in byte strings that may have other bytes as well. Valid means RFC 3629: shortest form, no
/// surrogates, up to U+10FFFF.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// Returns the length in bytes of the valid character at the start of `text` (1 to 4), 0 if none is there.
size_t utf8_length(std::string_view text);

/// Returns how many bytes at the end of `text` (0 to 3) begin a valid character whose rest is missing.
size_t utf8_unfinished_tail(std::string_view text);

/// Returns the code point of one valid character, alone or at the start of `text`.
uint32_t utf8_code_point(std::string_view text);

/// Appends a character to `out`. `code_point` must be valid: no surrogate, at most U+10FFFF.
void append_utf8(std::string& out, uint32_t code_point);

/// Returns whether all of `text` is valid.
bool is_utf8(std::string_view text);

/// Returns Unicode's property White_Space, which is \s in the regex dialects of tokenizers.
bool is_white_space(uint32_t code_point);

/// Calls valid(run) for each maximal run of valid characters and invalid(byte) for each byte between them, in order.
template <class Valid, class Invalid>
void for_each_utf8_run(std::string_view text, Valid&& valid, Invalid&& invalid) {
    size_t begin = 0;
    size_t at = 0;
    while (at < text.size()) {
        if (const size_t length = utf8_length(text.substr(at)); length > 0) {
            at += length;
            continue;
        }
        if (at > begin) valid(text.substr(begin, at - begin));
        invalid(text[at]);
        begin = ++at;
    }
    if (at > begin) valid(text.substr(begin));
}

}  // namespace trireme
