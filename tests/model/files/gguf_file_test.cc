#include "model/files/gguf_file.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kHuge = uint64_t{1} << 63;

GgufFile read(std::string_view bytes) {
    return read_gguf(*memory_source("x.gguf", bytes_of(bytes)));
}

void expect_refused(const GgufBytes& bytes, const std::vector<std::string>& parts) {
    expect_error([&] { read(bytes.str()); }, Exit::kData, parts);
}

/// One F32 tensor of 2 x 4 and some metadata.
GgufBytes good() {
    GgufBytes b;
    b.head(1, 3).u32("n", 7).text("s", "text").f32("f", 0.5f);
    return b.tensor("t", {4, 2}, 0, 0).pad().append(std::string(32, '\0'));
}

TEST(Gguf, ReadsAFileWrittenByHand) {
    GgufBytes b;
    b.head(2, 14, 2);
    b.string("u8").raw(uint32_t{0}).raw(uint8_t{200});
    b.string("i8").raw(uint32_t{1}).raw(int8_t{-100});
    b.string("u16").raw(uint32_t{2}).raw(uint16_t{60000});
    b.string("i16").raw(uint32_t{3}).raw(int16_t{-30000});
    b.u32("u32", 4000000000u);
    b.string("i32").raw(uint32_t{5}).raw(int32_t{-2});
    b.f32("f32", 0.25f);
    b.string("bool").raw(uint32_t{7}).raw(uint8_t{1});
    b.text("string", "abc");
    b.string("strings").raw(uint32_t{9}).raw(uint32_t{8}).raw(uint64_t{2}).string("x").string("");
    b.string("ints").raw(uint32_t{9}).raw(uint32_t{5}).raw(uint64_t{2}).raw(int32_t{-1}).raw(int32_t{1});
    b.string("u64").raw(uint32_t{10}).raw(uint64_t{1} << 40);
    b.string("huge").raw(uint32_t{10}).raw(kHuge);
    b.string("f64").raw(uint32_t{12}).raw(1.5);
    b.tensor("a", {4, 3}, 0, 0).tensor("q", {32}, 8, 64).pad();
    const size_t data = b.str().size();
    b.append(std::string(64 + 34, '\0'));

    const GgufFile file = read(b.str());

    const GgufMetadata& m = file.metadata;
    EXPECT_EQ(m.integer("u8"), 200);
    EXPECT_EQ(m.integer("i8"), -100);
    EXPECT_EQ(m.integer("u16"), 60000);
    EXPECT_EQ(m.integer("i16"), -30000);
    EXPECT_EQ(m.integer("u32"), 4000000000);
    EXPECT_EQ(m.integer("i32"), -2);
    EXPECT_EQ(m.number("f32"), 0.25);
    EXPECT_EQ(m.number("i32"), -2.0);
    EXPECT_EQ(m.boolean("bool"), true);
    EXPECT_EQ(m.string("string"), "abc");
    EXPECT_EQ(m.strings("strings"), (std::vector<std::string>{"x", ""}));
    EXPECT_EQ(m.integers("ints"), (std::vector<int64_t>{-1, 1}));
    EXPECT_EQ(m.array_size("strings"), 2u);
    EXPECT_EQ(m.integer("u64"), int64_t{1} << 40);
    EXPECT_EQ(m.number("f64"), 1.5);
    EXPECT_FALSE(m.integer("none").has_value());
    EXPECT_TRUE(m.strings("none").empty());
    expect_error([&] { m.integer("huge"); }, Exit::kData, {"'huge'", "whole number"});
    expect_error([&] { m.integer("string"); }, Exit::kData, {"'string'", "whole number"});
    expect_error([&] { m.strings("ints"); }, Exit::kData, {"'ints'", "array of strings"});
    expect_error([&] { m.array_size("u8"); }, Exit::kData, {"'u8'", "array"});
    expect_error([&] { m.required_string("none"); }, Exit::kData, {"'none' is missing"});

    ASSERT_EQ(file.tensors.size(), 2u);
    EXPECT_EQ(file.tensors[0].dims, (std::vector<uint64_t>{3, 4}));  // rows first
    EXPECT_EQ(file.tensors[0].offset, data);
    EXPECT_EQ(file.tensors[0].bytes, 48u);
    EXPECT_EQ(file.tensors[1].type, StoredType::kQ8_0);
    EXPECT_EQ(file.tensors[1].offset, data + 64);
    EXPECT_EQ(file.tensors[1].bytes, 34u);
}

TEST(Gguf, RefusesWhatIsNoGguf) {
    expect_refused(GgufBytes(), {"'GGUF'"});
    expect_refused(GgufBytes().append("GGUF"), {"'GGUF'"});
    expect_refused(GgufBytes().append(std::string(100, 'x')), {"'GGUF'"});
    expect_refused(GgufBytes().head(0, 0, 1), {"GGUF version 1;"});
    expect_refused(GgufBytes().head(0, 0, 4), {"GGUF version 4;"});
    expect_refused(GgufBytes().head(0, 0, 0x03000000), {"big-endian"});
    EXPECT_TRUE(read(GgufBytes().head(0, 0).pad().str()).tensors.empty());
}

TEST(Gguf, RefusesCountsBeyondTheFile) {
    for (const uint64_t n : {uint64_t{65537}, kHuge, ~uint64_t{0}}) {
        expect_refused(GgufBytes().head(n, 0), {"tensors"});
        expect_refused(GgufBytes().head(0, n), {"keys"});
    }
    expect_refused(GgufBytes().head(65536, 0), {"are left"});
    expect_refused(GgufBytes().head(0, 65536), {"are left"});
    for (const uint64_t n : {uint64_t{100}, (uint64_t{1} << 20) + 1, kHuge, ~uint64_t{0}}) {
        expect_refused(GgufBytes().head(0, 1).raw(n).append("key, type, value"), {"a string"});
        expect_refused(GgufBytes().head(0, 1).string("k").raw(uint32_t{8}).raw(n), {"a string"});
        expect_refused(GgufBytes().head(0, 1).string("k").raw(uint32_t{9}).raw(uint32_t{4}).raw(n).append("0123"),
                       {"x.gguf"});
        expect_refused(GgufBytes().head(0, 1).string("k").raw(uint32_t{9}).raw(uint32_t{8}).raw(n).append("0123"),
                       {"x.gguf"});
    }
}

TEST(Gguf, RefusesBadMetadata) {
    expect_refused(GgufBytes().head(0, 1).string("k").raw(uint32_t{13}).raw(uint64_t{0}), {"value type 13"});
    expect_refused(GgufBytes().head(0, 1).string("k").raw(uint32_t{9}).raw(uint32_t{9}).raw(uint64_t{0}),
                   {"array of value type 9"});
    expect_refused(GgufBytes().head(0, 1).string("k").raw(uint32_t{7}).raw(uint8_t{2}), {"a bool of 2"});
    expect_refused(GgufBytes().head(0, 1).u32("", 1), {"an empty key"});
    expect_refused(GgufBytes().head(0, 2).u32("k", 1).u32("k", 1), {"'k' appears twice"});
    for (const uint32_t a : {0u, 3u, 1u << 17, ~0u}) {
        expect_refused(GgufBytes().head(0, 1).u32("general.alignment", a), {"'general.alignment'"});
    }
    expect_refused(GgufBytes().head(0, 1).text("general.alignment", "32"), {"'general.alignment'", "whole number"});
}

TEST(Gguf, RefusesBadTensors) {
    const auto one = [](const std::string& name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
        GgufBytes b;
        return b.head(1, 0).tensor(name, std::move(dims), type, offset).pad().append(std::string(64, '\0'));
    };
    EXPECT_NO_THROW(read(one("t", {4, 2}, 0, 0).str()));
    expect_refused(one("t", {}, 0, 0), {"'t': 0 dimensions"});
    expect_refused(one("t", {1, 1, 1, 1, 1}, 0, 0), {"'t': 5 dimensions"});
    expect_refused(one("t", {4, 0}, 0, 0), {"'t': an extent of 0"});
    expect_refused(one("t", {32, 2}, 0, 0), {"'t'", "past the end"});
    expect_refused(one("t", {4, 2}, 0, 64), {"'t'", "past the end"});
    expect_refused(one("t", {4, 2}, 0, 1), {"'t' begins at 1, no multiple of 32"});
    expect_refused(one("t", {4, 2}, 0, ~uint64_t{31}), {"past the end"});
    expect_refused(one("t", {33}, 2, 0), {"rows of 33", "blocks of 32 (Q4_0)"});
    for (const std::vector<uint64_t>& dims : {std::vector<uint64_t>{kHuge, 2},
                                              {kHuge},
                                              {kHuge, kHuge, kHuge, kHuge},
                                              {uint64_t{1} << 32, uint64_t{1} << 32},
                                              {~uint64_t{0}}}) {
        expect_refused(one("t", dims, 0, 0), {"'t'"});
    }
    expect_refused(one(std::string(513, 'n'), {4}, 0, 0), {"a string of 513"});
    GgufBytes twice;
    twice.head(2, 0).tensor("t", {8}, 0, 0).tensor("t", {8}, 0, 32).pad().append(std::string(64, '\0'));
    expect_refused(twice, {"'t' appears twice"});
}

TEST(Gguf, RefusesHolesAndOverlaps) {
    const auto two = [](uint64_t second) {
        GgufBytes b;
        return b.head(2, 0).tensor("a", {12}, 0, 0).tensor("b", {8}, 0, second).pad().append(std::string(256, '\0'));
    };
    EXPECT_NO_THROW(read(two(64).str()));
    expect_refused(two(32), {"an overlap", "'a' and 'b'"});
    expect_refused(two(0), {"an overlap"});
    expect_refused(two(96), {"a hole", "'a' and 'b'"});
}

TEST(Gguf, TypesThatAreNotReadAreNamed) {
    GgufBytes b;
    b.head(2, 0).tensor("a", {256}, 16, 0).tensor("b", {256}, 99, 32).pad().append(std::string(64, '\0'));
    const GgufFile file = read(b.str());
    EXPECT_FALSE(file.tensors[0].type.has_value());
    EXPECT_EQ(file.tensors[0].type_name, "IQ2_XXS");
    EXPECT_EQ(file.tensors[1].type_name, "type 99");
}

TEST(Gguf, LongForeignArraysAreSkipped) {
    GgufBytes b;
    b.head(0, 2).string("k").raw(uint32_t{9}).raw(uint32_t{4}).raw(uint64_t{5000}).append(std::string(20000, '\0'));
    b.u32("n", 3);
    const GgufFile file = read(b.str());
    EXPECT_EQ(file.metadata.integer("n"), 3);
    expect_error([&] { file.metadata.integers("k"); }, Exit::kData, {"'k'"});
}

TEST(Gguf, TruncationAnywhereIsRefused) {
    const std::string whole = good().str();
    ASSERT_NO_THROW(read(whole));
    for (size_t n = 0; n < whole.size(); ++n) {
        try {
            read(std::string_view(whole).substr(0, n));
            FAIL() << "accepted " << n << " of " << whole.size() << " bytes";
        } catch (const Error& e) {
            ASSERT_EQ(e.code(), Exit::kData) << e.what();
        }
    }
}

TEST(Gguf, NoByteOfAHeaderCrashesTheReader) {
    const std::string whole = slurp(fs::path(TRIREME_TEST_DATA) / "gguf" / "q8_0.gguf");
    const auto source_bytes = whole.size();
    for (size_t i = 0; i < std::min<size_t>(source_bytes, 1500); ++i) {
        for (const char c : {'\x00', '\x7f', '\xff'}) {
            std::string bytes = whole;
            bytes[i] = c;
            try {
                read(bytes);
            } catch (const Error& e) {
                ASSERT_EQ(e.code(), Exit::kData) << e.what();
            }
        }
    }
}

}  // namespace
}  // namespace trireme::test
