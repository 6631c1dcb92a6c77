#pragma once
/// Bytes as vocabularies write them: each as one printable character (GPT-2's alphabet), or as "<0x0A>"
/// (SentencePiece).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

/// Returns the bytes that `text` spells in GPT-2's alphabet; nothing if it has a character outside the alphabet.
std::optional<std::string> bytes_from_byte_level(std::string_view text);

/// Returns the byte that a piece like "<0x0A>" represents (two upper-case hexadecimal digits), or -1.
int byte_of_piece(std::string_view piece);

}  // namespace trireme
