#include "model/tokenizer/byte_level.h"

#include <array>

#include "model/tokenizer/utf8.h"

namespace trireme {
namespace {

bool stands_for_itself(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

/// [code point] -> byte, -1 for none. Bytes that do not represent themselves are U+0100 and later, in order.
constexpr size_t kLetters = 0x144;
std::array<int16_t, kLetters> make_alphabet() {
    std::array<int16_t, kLetters> alphabet{};
    alphabet.fill(-1);
    size_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
        const size_t letter = stands_for_itself(byte) ? byte : next++;
        alphabet[letter] = static_cast<int16_t>(byte);
    }
    return alphabet;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

std::optional<std::string> bytes_from_byte_level(std::string_view text) {
    static const std::array<int16_t, kLetters> alphabet = make_alphabet();
    std::string bytes;
    for (size_t at = 0; at < text.size();) {
        const size_t length = utf8_length(text.substr(at));
        const uint32_t letter = length > 0 ? utf8_code_point(text.substr(at)) : kLetters;
        if (letter >= kLetters || alphabet[letter] < 0) return std::nullopt;
        bytes += static_cast<char>(static_cast<uint8_t>(alphabet[letter]));
        at += length;
    }
    return bytes;
}

int byte_of_piece(std::string_view piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
    const int high = hex_digit(piece[3]);
    const int low = hex_digit(piece[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace trireme
