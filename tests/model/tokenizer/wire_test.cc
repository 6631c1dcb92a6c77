#include "model/tokenizer/wire.h"

#include <gtest/gtest.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

void expect_refused(const std::string& bytes, const std::string& part) {
    expect_error(
        [&] {
            for (WireReader reader(bytes, "x.model"); reader.next();) {
            }
        },
        Exit::kData, {"x.model", part});
}

TEST(Wire, ReadsWhatItWrites) {
    WireWriter writer;
    writer.varint(1, 0);
    writer.varint(2, ~uint64_t{0});
    writer.fixed32(3, 0xDEADBEEF);
    writer.bytes(536870911, "abc");

    WireReader reader(writer.text(), "x.model");
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.varint(), 0u);
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.field(), 2u);
    EXPECT_EQ(reader.varint(), ~uint64_t{0});
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.fixed32(), 0xDEADBEEF);
    ASSERT_TRUE(reader.next());
    EXPECT_EQ(reader.field(), 536870911u);
    EXPECT_EQ(reader.bytes(), "abc");
    EXPECT_FALSE(reader.next());
}

TEST(Wire, RefusesWhatIsBroken) {
    expect_refused("\x08", "cut off");
    expect_refused("\x08\xFF", "cut off");
    expect_refused(std::string("\x08") + std::string(11, '\xFF'), "more than 10 bytes");
    expect_refused(
        "\x0A\x05"
        "abc",
        "a field of 5 bytes");
    expect_refused(std::string("\x0A") + std::string(9, '\xFF') + "\x01", "a field of 18446744073709551615 bytes");
    expect_refused(
        "\x0D"
        "abc",
        "a field of 4 bytes");
    expect_refused(
        "\x09"
        "abcdefg",
        "a field of 8 bytes");
    expect_refused("\x0B\x0C", "wire type 3");
    expect_refused("\x0E", "wire type 6");
    expect_refused(std::string("\x00\x01", 2), "field number 0");
}

TEST(Wire, RefusesAnotherTypeThanAsked) {
    WireReader reader("\x08\x01", "x.model");
    ASSERT_TRUE(reader.next());
    expect_error([&] { reader.bytes(); }, Exit::kData, {"field 1", "wire type 0", "bytes"});
    expect_error([&] { reader.fixed32(); }, Exit::kData, {"32 bits"});
}

}  // namespace
}  // namespace trireme::test
