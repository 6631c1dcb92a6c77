#include "model/tokenizer/byte_level.h"

#include <gtest/gtest.h>

#include "tests/model/tokenizer/made.h"

namespace trireme::test {
namespace {

TEST(ByteLevel, KnownLetters) {
    EXPECT_EQ(bytes_from_byte_level("\u0120the"), " the");
    EXPECT_EQ(bytes_from_byte_level("\u010A\u0109"), "\n\t");
    EXPECT_EQ(bytes_from_byte_level("\u00C3\u00A9"), "\xC3\xA9");
    EXPECT_EQ(bytes_from_byte_level("\u0143"), "\xAD");
    EXPECT_EQ(bytes_from_byte_level(""), "");
}

TEST(ByteLevel, IsABijection) {
    for (int byte = 0; byte < 256; ++byte)
        EXPECT_EQ(bytes_from_byte_level(byte_letter(byte)), std::string(1, static_cast<char>(byte)));
}

TEST(ByteLevel, RefusesOtherLetters) {
    for (const char* text : {" ", "a b", "\u0144", "\u2581", "\xFF", "\u00AD"})
        EXPECT_FALSE(bytes_from_byte_level(text)) << text;
}

TEST(BytePiece, IsTwoUpperCaseDigits) {
    for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(byte_of_piece(byte_piece(byte)), byte);
    for (const char* text :
         {"", "<0x-1>", "<0x1>", "<0xab>", "<0x100>", "<0xGG>", "<0x41>>", "0x41", "<0X41>", "<0x41 "})
        EXPECT_EQ(byte_of_piece(text), -1) << text;
}

}  // namespace
}  // namespace trireme::test
