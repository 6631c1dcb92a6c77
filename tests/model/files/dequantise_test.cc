#include "model/files/dequantise.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "model/files/byte_source.h"
#include "model/files/safetensors.h"
#include "tests/model/files/support.h"
#include "tests/support/stored_types.h"

namespace trireme::test {
namespace {

/// Little-endian half.
std::string half(float x) {
    const uint16_t bits = f16(x).bits;
    return {static_cast<char>(bits & 0xff), static_cast<char>(bits >> 8)};
}

std::vector<float> decode(StoredType type, const std::string& block) {
    EXPECT_EQ(block.size(), layout_of(type).bytes);
    std::vector<float> out(static_cast<size_t>(layout_of(type).elements));
    dequantise(type, bytes_of(block).data(), layout_of(type).elements, out.data());
    return out;
}

TEST(Dequantise, Q8_0ByHand) {
    std::string q(32, '\0');
    q[0] = 127;
    q[1] = static_cast<char>(-128);
    q[31] = 3;
    const auto x = decode(StoredType::kQ8_0, half(0.5f) + q);
    EXPECT_EQ(x[0], 63.5f);
    EXPECT_EQ(x[1], -64.0f);
    EXPECT_EQ(x[2], 0.0f);
    EXPECT_EQ(x[31], 1.5f);
}

TEST(Dequantise, SmallBlocksByHand) {
    std::string q(16, '\x88');
    q[0] = '\x1f';   // element 0: 15, element 16: 1
    q[15] = '\xe2';  // element 15: 2, element 31: 14
    const auto q4_0 = decode(StoredType::kQ4_0, half(2.0f) + q);
    EXPECT_EQ(q4_0[0], 14.0f);
    EXPECT_EQ(q4_0[16], -14.0f);
    EXPECT_EQ(q4_0[15], -12.0f);
    EXPECT_EQ(q4_0[31], 12.0f);
    EXPECT_EQ(q4_0[5], 0.0f);
    const auto q4_1 = decode(StoredType::kQ4_1, half(2.0f) + half(-1.0f) + q);
    EXPECT_EQ(q4_1[0], 29.0f);
    EXPECT_EQ(q4_1[16], 1.0f);
    EXPECT_EQ(q4_1[31], 27.0f);

    const std::string high = {'\x01', '\x00', '\x01', '\x80'};  // bits 0, 16 and 31
    const auto q5_0 = decode(StoredType::kQ5_0, half(1.0f) + high + q);
    EXPECT_EQ(q5_0[0], 15.0f);    // 31 - 16
    EXPECT_EQ(q5_0[16], 1.0f);    // 17 - 16
    EXPECT_EQ(q5_0[15], -14.0f);  // 2 - 16
    EXPECT_EQ(q5_0[31], 14.0f);   // 30 - 16
    const auto q5_1 = decode(StoredType::kQ5_1, half(1.0f) + half(0.5f) + high + q);
    EXPECT_EQ(q5_1[0], 31.5f);
    EXPECT_EQ(q5_1[15], 2.5f);
}

TEST(Dequantise, Q6_KByHand) {
    std::string block(210, '\0');
    block[0] = '\x21';                       // low halves of elements 0 (1) and 64 (2)
    block[128] = '\x13';                     // upper bits of elements 0 (3), 32 (0), 64 (1), 96 (0)
    block[192] = 2;                          // scale of elements 0..15
    block[192 + 4] = static_cast<char>(-3);  // scale of elements 64..79
    block.replace(208, 2, half(0.5f));
    const auto x = decode(StoredType::kQ6_K, block);
    EXPECT_EQ(x[0], 0.5f * 2 * (1 + 48 - 32));
    EXPECT_EQ(x[64], 0.5f * -3 * (2 + 16 - 32));
    EXPECT_EQ(x[1], 0.5f * 2 * -32);
    EXPECT_EQ(x[16], 0.0f);
}

TEST(Dequantise, Q4_KScalesAreSixBits) {
    std::string block(144, '\0');
    block.replace(0, 2, half(1.0f));
    block.replace(2, 2, half(1.0f));
    // Group 0: scale 63, min 1. Group 4: scale 0b10'0101, min 0b01'1010.
    block[4 + 0] = static_cast<char>(63 | 2 << 6);
    block[4 + 4] = static_cast<char>(1 | 1 << 6);
    block[4 + 8] = static_cast<char>(0b0101 | 0b1010 << 4);
    block[16] = '\x0f';       // element 0: 15
    block[16 + 64] = '\x03';  // element 128: 3
    const auto x = decode(StoredType::kQ4_K, block);
    EXPECT_EQ(x[0], 63.0f * 15 - 1);
    EXPECT_EQ(x[1], -1.0f);
    EXPECT_EQ(x[128], 37.0f * 3 - 26);
    EXPECT_EQ(x[129], -26.0f);
}

TEST(Dequantise, Int4SubtractsItsZeroPoint) {
    std::byte block[20] = {};
    const uint32_t head = std::bit_cast<uint32_t>(0.375F) | 16u;
    std::memcpy(block, &head, 4);
    for (size_t i = 0; i < 16; ++i) block[4 + i] = static_cast<std::byte>(i | (15 - i) << 4);
    float out[32];
    dequantise(StoredType::kInt4, block, 32, out);
    for (int i = 0; i < 16; ++i) {
        EXPECT_EQ(out[i], static_cast<float>(i - 16) * 0.375F);
        EXPECT_EQ(out[i + 16], static_cast<float>(15 - i - 16) * 0.375F);
    }
}

// e4m3: a sign, four bits of exponent with bias 7, three of mantissa; exponent 0 is subnormal; 0x7f and 0xff are NaN.
TEST(Dequantise, Fp8HasEveryNumber) {
    const float scale = 0.3F;
    for (int first = 0; first < 256; first += 32) {
        std::byte block[36];
        std::memcpy(block, &scale, 4);
        for (int i = 0; i < 32; ++i) block[4 + i] = static_cast<std::byte>(first + i);
        float out[32];
        dequantise(StoredType::kFP8, block, 32, out);
        bool nan = false;
        for (int i = 0; i < 32; ++i) {
            const int code = first + i, exponent = code >> 3 & 15, mantissa = code & 7;
            nan = nan || (code & 127) == 127;
            if ((code & 127) == 127) {
                EXPECT_TRUE(std::isnan(out[i])) << code;
                continue;
            }
            const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
            EXPECT_EQ(out[i], static_cast<float>(code > 127 ? -size : size) * scale) << code;
        }
        EXPECT_EQ(finite_scales(StoredType::kFP8, block, 32), !nan);
    }
}

TEST(Dequantise, EveryTypeEqualsTheReferenceBitForBit) {
    const auto source = open_file(std::filesystem::path(TRIREME_TEST_DATA) / "gguf" / "blocks.safetensors");
    const SafetensorsHeader header = read_safetensors_header(*source);
    const auto read = [&](const std::string& name, const std::string& dtype) {
        const auto it = header.find(name);
        check(it != header.end() && it->second.dtype == dtype, "no {} in the golden", name);
        std::vector<std::byte> bytes(it->second.bytes);
        source->read(it->second.offset, bytes);
        return bytes;
    };
    for (const StoredType type : kQuantised) {
        if (type == StoredType::kInt4 || type == StoredType::kFP8) continue;  // no types of GGUF
        const std::string name(name_of(type));
        SCOPED_TRACE(name);
        const auto raw = read(name + ".raw", "U8"), want = read(name + ".values", "F32");
        const int64_t n = static_cast<int64_t>(raw.size() / layout_of(type).bytes) * layout_of(type).elements;
        ASSERT_EQ(static_cast<size_t>(n) * 4, want.size());
        ASSERT_GT(n, 0);

        std::vector<float> got(static_cast<size_t>(n));
        dequantise(type, raw.data(), n, got.data());

        EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0);
    }
}

// Every value of random blocks that surely fit is in range; the bound is not more than twice too strict for codes at
// their largest.
TEST(Dequantise, KnowsScalesWhoseValuesFitF16) {
    uint32_t state = 7;
    const auto next = [&] { return state = state * 1664525u + 1013904223u; };
    for (const StoredType type : kQuantised) {
        const BlockLayout l = layout_of(type);
        int fitting = 0, wide = 0;
        for (int trial = 0; trial < 2000; ++trial) {
            std::vector<std::byte> block(l.bytes);
            for (auto& b : block) b = static_cast<std::byte>(next() >> 24);
            if (type == StoredType::kInt4) block[0] = static_cast<std::byte>(next() % 17);
            if (!finite_scales(type, block.data(), l.elements)) continue;
            std::vector<float> values(static_cast<size_t>(l.elements));
            dequantise(type, block.data(), l.elements, values.data());
            float most = 0;
            for (const float v : values) most = std::max(most, std::fabs(v));
            const bool fits = surely_fit_f16(type, block.data(), l.elements);
            EXPECT_TRUE(!fits || most <= 65504.0F) << name_of(type) << " " << most;
            ++(fits ? fitting : wide);
        }
        EXPECT_GT(fitting, 0) << name_of(type);
        EXPECT_GT(wide, 0) << name_of(type);
    }
}

TEST(Dequantise, LayoutsAreWholeBlocks) {
    for (const StoredType type : kQuantised) {
        const BlockLayout l = layout_of(type);
        std::string block(l.bytes, '\0');
        std::vector<float> out(static_cast<size_t>(l.elements));
        expect_error([&] { dequantise(type, bytes_of(block).data(), l.elements / 2, out.data()); }, Exit::kInternal,
                     {});
    }
    float x = 0;
    expect_error([&] { dequantise(StoredType::kF16, nullptr, 1, &x); }, Exit::kInternal, {"F16"});
}

}  // namespace
}  // namespace trireme::test
