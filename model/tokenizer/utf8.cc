#include "model/tokenizer/utf8.h"

#include <algorithm>

namespace trireme {
namespace {

uint8_t byte_at(std::string_view text, size_t i) {
    return static_cast<uint8_t>(text[i]);
}

/// Returns the length that the first byte announces; 0 for a byte that starts nothing.
size_t announced_length(uint8_t first) {
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;  // continuation bytes, and C0 C1, which only start overlong forms
    if (first < 0xE0) return 2;
    if (first < 0xF0) return 3;
    return first < 0xF5 ? 4 : 0;
}

/// The range of the second byte excludes overlong forms, surrogates and code points above U+10FFFF.
bool second_byte_fits(uint8_t first, uint8_t second) {
    const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    return second >= low && second <= high;
}

bool continues(uint8_t byte) {
    return (byte & 0xC0) == 0x80;
}

/// Returns the number of leading bytes of `text`, at most `length`, that fit a character of that length.
size_t fitting_bytes(std::string_view text, size_t length) {
    const size_t end = std::min(length, text.size());
    size_t i = 1;
    if (i < end && second_byte_fits(byte_at(text, 0), byte_at(text, 1))) ++i;
    while (i >= 2 && i < end && continues(byte_at(text, i))) ++i;
    return i;
}

}  // namespace

size_t utf8_length(std::string_view text) {
    if (text.empty()) return 0;
    const size_t length = announced_length(byte_at(text, 0));
    if (length <= 1) return length;
    return fitting_bytes(text, length) == length ? length : 0;
}

size_t utf8_unfinished_tail(std::string_view text) {
    for (size_t tail = 1; tail <= std::min<size_t>(3, text.size()); ++tail) {
        const std::string_view last = text.substr(text.size() - tail);
        const size_t length = announced_length(byte_at(last, 0));
        if (length > tail && fitting_bytes(last, length) == tail) return tail;
    }
    return 0;
}

uint32_t utf8_code_point(std::string_view text) {
    const size_t length = announced_length(byte_at(text, 0));
    if (length <= 1) return byte_at(text, 0);
    uint32_t code_point = byte_at(text, 0) & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; ++i) code_point = (code_point << 6) | (byte_at(text, i) & 0x3Fu);
    return code_point;
}

void append_utf8(std::string& out, uint32_t code_point) {
    const auto put = [&](uint32_t byte) { out += static_cast<char>(static_cast<uint8_t>(byte)); };
    if (code_point < 0x80) {
        put(code_point);
    } else if (code_point < 0x800) {
        put(0xC0 | code_point >> 6);
        put(0x80 | (code_point & 0x3F));
    } else if (code_point < 0x10000) {
        put(0xE0 | code_point >> 12);
        put(0x80 | (code_point >> 6 & 0x3F));
        put(0x80 | (code_point & 0x3F));
    } else {
        put(0xF0 | code_point >> 18);
        put(0x80 | (code_point >> 12 & 0x3F));
        put(0x80 | (code_point >> 6 & 0x3F));
        put(0x80 | (code_point & 0x3F));
    }
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const size_t length = utf8_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

bool is_white_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace trireme
