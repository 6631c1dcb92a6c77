/// Dot products of bytes in registers of 256 bits against those of 512 bits. Few CPUs have both AVX-VNNI and AVX-512,
/// so the instruction has AVX-512's encoding here (kernels/cpu/byte_dots_evex.cc).

#include "kernels/cpu/byte_dots.h"

#include <cmath>
#include <vector>

#include <hwy/highway.h>

#include "tests/kernels/block_rows.h"

#if HWY_ARCH_X86_64
namespace trireme {

const ByteProducts& byte_products_evex();

namespace test {
namespace {

class ByteDotsOf : public testing::TestWithParam<StoredType> {};

std::vector<float> multiply(const ByteProducts& with, BlockRowsOf& rows, const std::vector<float>& x, int64_t n,
                            bool two) {
    const int64_t bytes = byte_row_bytes(rows.cols);
    BackendVector<std::byte> packed(static_cast<size_t>(n * bytes));
    for (int64_t r = 0; r < n; ++r) {
        with.pack(x.data() + r * rows.cols, rows.cols, 0, rows.cols, two, packed.data() + r * bytes);
    }
    std::vector<float> out(static_cast<size_t>(n * rows.rows));
    const WeightRows w = rows.tiles();
    with.multiply({.x = packed.data(),
                   .rows = n,
                   .k = rows.cols,
                   .type = w.type,
                   .tiles = static_cast<const std::byte*>(w.data),
                   .stride = w.stride,
                   .two = two,
                   .out = out.data(),
                   .first = 0,
                   .out_stride = rows.rows},
                  0, rows.rows);
    return out;
}

TEST_P(ByteDotsOf, AvxVnniGivesTheBitsOfAvx512) {
    if (byte_dots() != ByteDots::kVnni) GTEST_SKIP() << "no AVX-512 VNNI";
    if (!can_interleave(GetParam())) GTEST_SKIP() << "not interleaved";
    BlockRowsOf rows(GetParam(), 37, 512, 4);
    for (const int64_t n : {1, 2, 3, 8, 13}) {
        std::vector<float> x(static_cast<size_t>(n * 512));
        for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i * i % 10007));
        for (const bool two : {true, false}) {
            EXPECT_EQ(multiply(byte_products_evex(), rows, x, n, two), multiply(byte_products_512(), rows, x, n, two));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Types, ByteDotsOf, testing::ValuesIn(kQuantised),
                         [](const auto& of) { return std::string(name_of(of.param)); });

}  // namespace
}  // namespace test
}  // namespace trireme
#endif
