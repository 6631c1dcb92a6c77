#include "model/files/safetensors.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

SafetensorsHeader read(std::string_view bytes) {
    return read_safetensors_header(*memory_source("x.safetensors", bytes_of(bytes)));
}

void expect_refused(std::string_view bytes, const std::vector<std::string>& parts) {
    expect_error([&] { read(bytes); }, Exit::kData, parts);
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& range) {
    return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + range + "}";
}

TEST(Safetensors, ReadsAFileWrittenByHand) {
    const std::string header = R"({"b":{"dtype":"F16","shape":[2,2],"data_offsets":[8,16]},
        "a":{"dtype":"I64","shape":[],"data_offsets":[0,8]}, "__metadata__":{"by":"hand"}}   )";
    const SafetensorsHeader h = read(safetensors(header, std::string(16, 'x')));

    ASSERT_EQ(h.size(), 2u);
    EXPECT_EQ(h.at("a").dtype, "I64");
    EXPECT_TRUE(h.at("a").dims.empty());
    EXPECT_EQ(h.at("a").offset, 8 + header.size());
    EXPECT_EQ(h.at("b").dims, (std::vector<uint64_t>{2, 2}));
    EXPECT_EQ(h.at("b").offset, 16 + header.size());
    EXPECT_EQ(h.at("b").bytes, 8u);
}

TEST(Safetensors, AnEmptyTensorIsNoHole) {
    const std::string header =
        "{\"a\":" + entry("F32", "[0,7]", "[0,0]") + ",\"b\":" + entry("F32", "[1]", "[0,4]") + "}";
    EXPECT_EQ(read(safetensors(header, "wxyz")).at("a").bytes, 0u);
}

TEST(Safetensors, RefusesALyingLength) {
    const auto lying = [](uint64_t n) {
        std::string bytes = safetensors("{}");
        std::memcpy(bytes.data(), &n, 8);
        return bytes;
    };
    expect_refused("", {"ends at 0"});
    expect_refused("short", {"ends at 5"});
    for (const uint64_t n : {uint64_t{3}, uint64_t{100000001}, uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
        expect_refused(lying(n), {"claims " + std::to_string(n)});
    }
    expect_refused(lying(0), {"does not begin"});
    const std::string big(uint64_t{17} << 20, ' ');
    expect_refused(safetensors(big), {"at most 16777216"});
}

TEST(Safetensors, RefusesBadHeaders) {
    expect_refused(safetensors("[]"), {"does not begin"});
    expect_refused(safetensors(" {}"), {"does not begin"});
    expect_refused(safetensors("{"), {"not valid JSON"});
    expect_refused(safetensors(R"({"a":1})"), {"'a'", "expected exactly"});
    expect_refused(safetensors(R"({"a":{"dtype":"F32","shape":[]}})"), {"expected exactly"});
    const auto one = [](const std::string& e) { return safetensors("{\"a\":" + e + "}", "wxyz"); };

    expect_refused(one(entry("F32", "1", "[0,4]")), {"'shape'"});
    expect_refused(one(entry("F32", "[-1]", "[0,4]")), {"'shape'"});
    expect_refused(one(entry("F32", "[1.0]", "[0,4]")), {"'shape'"});
    expect_refused(one(entry("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]")), {"'shape'", "at most 8"});
    expect_refused(one(entry("F32", "[1]", "[0]")), {"'data_offsets'"});
    expect_refused(one(entry("F32", "[1]", "[4,0]")), {"'data_offsets'"});
    expect_refused(one(entry("F32", "[1]", "[0,4,4]")), {"'data_offsets'"});
    expect_refused(one(entry("F32", "[1]", "[-4,0]")), {"'data_offsets'"});
    expect_refused(one(entry("F32", "[1]", "[0,8]")), {"bytes [0, 8) ", "4 bytes"});
    expect_refused(one(entry("F32", "[2]", "[0,4]")), {"[2] of F32 ", "bytes [0, 4)"});
    expect_refused(one(R"({"dtype":3,"shape":[1],"data_offsets":[0,4]})"), {"'dtype' is no string"});
    expect_refused(safetensors("{\"" + std::string(513, 'n') + "\":" + entry("F32", "[1]", "[0,4]") + "}", "wxyz"),
                   {"513"});
}

TEST(Safetensors, RefusesOverflowingShapes) {
    for (const char* shape : {"[4611686018427387904,4]", "[4294967296,4294967296]", "[18446744073709551615,1]",
                              "[9223372036854775808,2,0]"}) {
        expect_refused(safetensors("{\"a\":" + entry("F32", shape, "[0,0]") + "}"), {"does not fill"});
    }
}

TEST(Safetensors, RefusesHolesOverlapsAndTails) {
    const auto two = [](const std::string& a, const std::string& b, size_t bytes) {
        return safetensors("{\"a\":" + a + ",\"b\":" + b + "}", std::string(bytes, 'x'));
    };
    EXPECT_NO_THROW(read(two(entry("F32", "[1]", "[0,4]"), entry("F32", "[1]", "[4,8]"), 8)));
    expect_refused(two(entry("F32", "[1]", "[0,4]"), entry("F32", "[1]", "[5,9]"), 9), {"a hole", "tensor 'b'"});
    expect_refused(two(entry("F32", "[1]", "[0,4]"), entry("F32", "[1]", "[3,7]"), 7), {"an overlap", "tensor 'b'"});
    expect_refused(two(entry("F32", "[1]", "[0,4]"), entry("F32", "[1]", "[0,4]"), 4), {"an overlap"});
    expect_refused(two(entry("F32", "[1]", "[1,5]"), entry("F32", "[1]", "[5,9]"), 9), {"a hole", "header"});
    expect_refused(two(entry("F32", "[1]", "[0,4]"), entry("F32", "[1]", "[4,8]"), 9), {"1 bytes after"});
    expect_refused(safetensors("{}", "x"), {"1 bytes after"});
}

TEST(Safetensors, RefusesDuplicates) {
    const std::string e = entry("F32", "[1]", "[0,4]");
    expect_refused(safetensors("{\"a\":" + e + ",\"a\":" + e + "}", "wxyz"), {"'a' appears twice"});
    expect_refused(safetensors(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "wxyz"),
                   {"'dtype' appears twice"});
}

TEST(Safetensors, TruncationAnywhereIsRefused) {
    MadeTensors few = small_tensors();
    while (few.size() > 4) few.erase(few.begin());
    const std::string whole = safetensors(few);
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

}  // namespace
}  // namespace trireme::test
