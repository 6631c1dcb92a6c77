#include "model/files/slice_reader.h"

#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "model/files/dequantise.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

/// Stored bytes whose element i is i (F32).
std::string counting(int64_t n) {
    std::string bytes;
    for (int64_t i = 0; i < n; ++i) {
        const auto x = static_cast<float>(i);
        bytes.append(reinterpret_cast<const char*>(&x), 4);
    }
    return bytes;
}

std::vector<float> slice(const StoredMatrix& m, int64_t row0, int64_t col0, int64_t rows, int64_t cols) {
    std::vector<float> out(static_cast<size_t>(rows * cols), -1);
    read_slice(m, "t", row0, col0, HostTensor(out.data(), DType::kF32, Shape{rows, cols}));
    return out;
}

TEST(SliceReader, EveryRectangleOfAPlainMatrix) {
    const std::string bytes = "xxxx" + counting(5 * 7);
    const auto source = memory_source("m", bytes_of(bytes));
    const StoredMatrix m{source.get(), 4, StoredType::kF32, 5, 7};

    for (int64_t r = 0; r <= 5; ++r) {
        for (int64_t c = 0; c <= 7; ++c) {
            for (int64_t n = 0; r + n <= 5; ++n) {
                for (int64_t w = 0; c + w <= 7; ++w) {
                    const auto got = slice(m, r, c, n, w);
                    for (int64_t i = 0; i < n * w; ++i) {
                        ASSERT_EQ(got[static_cast<size_t>(i)], static_cast<float>((r + i / w) * 7 + c + i % w));
                    }
                }
            }
        }
    }
    expect_error([&] { slice(m, 4, 0, 2, 7); }, Exit::kInternal, {"rows [4, 6)"});
    expect_error([&] { slice(m, 0, 7, 1, 1); }, Exit::kInternal, {"columns [7, 8)"});
    expect_error([&] { slice(m, -1, 0, 1, 1); }, Exit::kInternal, {});
}

TEST(SliceReader, AVectorIsReadByElements) {
    const std::string bytes = counting(9);
    const auto source = memory_source("m", bytes_of(bytes));
    std::vector<float> out(4);
    read_slice({source.get(), 0, StoredType::kF32, 1, 9}, "t", 3, 0, HostTensor(out.data(), DType::kF32, Shape{4}));
    EXPECT_EQ(out, (std::vector<float>{3, 4, 5, 6}));
}

TEST(SliceReader, LeavesTheGapsOfAStridedTensorAlone) {
    const std::string bytes = counting(4 * 4);
    const auto source = memory_source("m", bytes_of(bytes));
    std::vector<float> out(4 * 6, -1);
    read_slice({source.get(), 0, StoredType::kF32, 4, 4}, "t", 0, 0,
               HostTensor(out.data(), DType::kF32, Shape{4, 4}, 6));
    for (size_t i = 0; i < out.size(); ++i) {
        EXPECT_EQ(out[i], i % 6 < 4 ? static_cast<float>(i / 6 * 4 + i % 6) : -1.0f);
    }
}

TEST(SliceReader, PairedRowsComeInRotateHalfOrder) {
    // Two heads of 8. Stored rows 0 1 2 3 ... of a head are pairs (0, 4), (1, 5), ... of its dimensions.
    const std::string bytes = counting(16);
    const auto source = memory_source("m", bytes_of(bytes));
    const StoredMatrix m{source.get(), 0, StoredType::kF32, 16, 1, 8};
    const std::vector<float> want{0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15};

    EXPECT_EQ(slice(m, 0, 0, 16, 1), want);
    for (int64_t r = 0; r < 16; ++r) {
        for (int64_t n = 1; r + n <= 16; ++n) {
            EXPECT_EQ(slice(m, r, 0, n, 1), std::vector<float>(want.begin() + r, want.begin() + r + n));
        }
    }
}

TEST(SliceReader, PairedRowsWithColumnSlices) {
    const std::string bytes = counting(16 * 4);
    const auto source = memory_source("m", bytes_of(bytes));
    const StoredMatrix m{source.get(), 0, StoredType::kF32, 16, 4, 8};
    const auto got = slice(m, 3, 1, 3, 2);  // dimensions 3, 4, 5 are stored rows 6, 1, 3
    EXPECT_EQ(got, (std::vector<float>{25, 26, 5, 6, 13, 14}));
}

TEST(SliceReader, CutsQuantisedRowsAnywhere) {
    for (const StoredType type :
         {StoredType::kQ4_0, StoredType::kQ5_1, StoredType::kQ8_0, StoredType::kQ4_K, StoredType::kQ6_K}) {
        SCOPED_TRACE(std::string(name_of(type)));
        const BlockLayout layout = layout_of(type);
        constexpr int64_t kRows = 3;
        const int64_t cols = 3 * layout.elements;
        std::string bytes;
        for (size_t i = 0; i < static_cast<size_t>(kRows) * 3 * layout.bytes; ++i) {
            bytes += static_cast<char>((i * 37 + 11) % 120);  // no byte makes a half infinite
        }
        std::vector<float> all(static_cast<size_t>(kRows * cols));
        dequantise(type, bytes_of(bytes).data(), kRows * cols, all.data());
        const auto source = memory_source("m", bytes_of(bytes));
        const StoredMatrix m{source.get(), 0, type, kRows, cols};

        for (const int64_t col0 : {int64_t{0}, int64_t{1}, int64_t{31}, int64_t{32}, layout.elements, cols - 33}) {
            for (const int64_t width : {int64_t{1}, int64_t{32}, int64_t{33}, cols - col0}) {
                const int64_t w = std::min(width, cols - col0);
                const auto got = slice(m, 1, col0, 2, w);
                for (int64_t i = 0; i < 2 * w; ++i) {
                    ASSERT_EQ(got[static_cast<size_t>(i)], all[static_cast<size_t>((1 + i / w) * cols + col0 + i % w)]);
                }
            }
        }
    }
}

TEST(SliceReader, MatricesLargerThanOneReadArrive) {
    constexpr int64_t kRows = 700, kCols = 1000;  // 2.8 MB in pieces of 1 MiB
    const std::string bytes = counting(kRows * kCols);
    const auto source = memory_source("m", bytes_of(bytes));
    std::vector<bf16> out(static_cast<size_t>(kRows * kCols));
    read_slice({source.get(), 0, StoredType::kF32, kRows, kCols}, "t", 0, 0,
               HostTensor(out.data(), DType::kBF16, Shape{kRows, kCols}));
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i].bits, bf16(static_cast<float>(i)).bits);
}

TEST(SliceReader, NamesTheFirstNonfiniteOfWhatItReads) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::string bytes = counting(6 * 4);
        std::memcpy(bytes.data() + 4 * (3 * 4 + 2), &bad, 4);
        const auto source = memory_source("file", bytes_of(bytes));
        const StoredMatrix m{source.get(), 0, StoredType::kF32, 6, 4};
        expect_error([&] { slice(m, 0, 0, 6, 4); }, Exit::kData, {"file", "'t'", "element 14"});
        expect_error([&] { slice(m, 2, 1, 3, 2); }, Exit::kData, {"element 14"});
        std::vector<f16> half(24);
        expect_error(
            [&] {
                read_slice(m, "t", 0, 0, HostTensor(half.data(), DType::kF16, Shape{6, 4}));
            },
            Exit::kData, {"element 14"});
        EXPECT_NO_THROW(slice(m, 4, 0, 2, 4));
        EXPECT_NO_THROW(slice(m, 0, 3, 6, 1));
    }
}

TEST(SliceReader, AScaleThatIsNotFiniteIsFound) {
    std::string bytes(3 * 34, '\x01');
    bytes[34 + 1] = '\x7c';  // second block: d = 0x7c01, a NaN
    const auto source = memory_source("file", bytes_of(bytes));
    const StoredMatrix m{source.get(), 0, StoredType::kQ8_0, 3, 32};
    expect_error([&] { slice(m, 0, 0, 3, 32); }, Exit::kData, {"element 32"});
}

// Rows of blocks are in the order of read_slice, whole or from a column on.
TEST(SliceReader, GivesBlocksAsTheyAre) {
    for (const StoredType type : {StoredType::kQ4_0, StoredType::kMXFP4, StoredType::kQ3_K, StoredType::kIQ4_XS}) {
        SCOPED_TRACE(std::string(name_of(type)));
        const BlockLayout layout = layout_of(type);
        constexpr int64_t kRows = 16, kBlocks = 3, kPaired = 8;
        const int64_t cols = kBlocks * layout.elements;
        std::string bytes;
        for (size_t i = 0; i < static_cast<size_t>(kRows * kBlocks) * layout.bytes; ++i) {
            bytes += static_cast<char>((i * 37 + 11) % 120);  // no byte makes a half infinite
        }
        const auto source = memory_source("m", bytes_of(bytes));
        for (const int64_t paired : {int64_t{0}, kPaired}) {
            const StoredMatrix m{source.get(), 0, type, kRows, cols, paired};
            for (const auto& [col0, blocks] : {std::pair<int64_t, int64_t>{0, 3}, {layout.elements + 5, 2}, {0, 1}}) {
                const auto n = static_cast<size_t>(blocks) * static_cast<size_t>(layout.elements);
                std::vector<std::byte> out(5 * static_cast<size_t>(blocks) * layout.bytes);
                read_block_rows(m, "t", 6, 5, col0, out);
                std::vector<float> values(5 * n);
                dequantise(type, out.data(), static_cast<int64_t>(values.size()), values.data());
                EXPECT_EQ(values, slice(m, 6, col0 / layout.elements * layout.elements, 5, static_cast<int64_t>(n)));
            }
            std::vector<std::byte> out(layout.bytes);
            expect_error([&] { read_block_rows(m, "t", 16, 1, 0, out); }, Exit::kInternal, {"16"});
        }
    }
}

TEST(SliceReader, AScaleOfABlockThatIsNotFiniteIsFound) {
    std::string bytes(3 * 34, '\x01');
    bytes[34 + 1] = '\x7c';  // second block: d = 0x7c01, a NaN
    const auto source = memory_source("file", bytes_of(bytes));
    const StoredMatrix m{source.get(), 0, StoredType::kQ8_0, 3, 32};
    std::vector<std::byte> out(3 * 34);
    expect_error([&] { read_block_rows(m, "t", 0, 3, 0, out); }, Exit::kData, {"element 32"});
    EXPECT_NO_THROW(read_block_rows(m, "t", 2, 1, 0, std::span(out).first(34)));
    // An e8m0 scale is finite; values are where a code is large.
    std::string fours(2 * 17, '\x01');
    fours[17] = '\xfe';
    fours[20] = '\x07';
    const auto there = memory_source("file", bytes_of(fours));
    const StoredMatrix mx{there.get(), 0, StoredType::kMXFP4, 2, 32};
    expect_error([&] { read_block_rows(mx, "t", 0, 2, 0, std::span(out).first(34)); }, Exit::kData, {"element 34"});
    fours[20] = '\x01';
    EXPECT_NO_THROW(read_block_rows(mx, "t", 0, 2, 0, std::span(out).first(34)));
}

TEST(SliceReader, AValueBeyondF16IsTheUsersChoice) {
    std::string bytes = counting(8);
    const float big = 1e6f;
    std::memcpy(bytes.data() + 4 * 5, &big, 4);
    const auto source = memory_source("file", bytes_of(bytes));
    const StoredMatrix m{source.get(), 0, StoredType::kF32, 2, 4};
    std::vector<f16> half(8);
    expect_error(
        [&] {
            read_slice(m, "t", 0, 0, HostTensor(half.data(), DType::kF16, Shape{2, 4}));
        },
        Exit::kConfig, {"'t'", "element 5", "bf16 or f32"});
    std::vector<bf16> brain(8);
    EXPECT_NO_THROW(read_slice(m, "t", 0, 0, HostTensor(brain.data(), DType::kBF16, Shape{2, 4})));
}

}  // namespace
}  // namespace trireme::test
