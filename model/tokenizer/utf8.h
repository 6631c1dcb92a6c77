#pragma once
/// UTF-8 in byte strings that need not be UTF-8. Valid means RFC 3629: shortest form, no surrogates, up to U+10FFFF.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// Returns the length in bytes of the valid character at the start of `text` (1 to 4), 0 if there is none.
size_t utf8_length(std::string_view text);

/// Returns how many bytes at the end of `text` (0 to 3) begin a valid character whose rest is missing.
size_t utf8_unfinished_tail(std::string_view text);

/// Returns the code point of one valid character, alone or at the start of `text`.
uint32_t utf8_code_point(std::string_view text);

/// `code_point` must be one: no surrogate, at most U+10FFFF.
void append_utf8(std::string& out, uint32_t code_point);

bool is_utf8(std::string_view text);

/// The property White_Space, which is what the regex dialects of tokenizers call \s.
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
