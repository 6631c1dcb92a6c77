// Small copies by a kernel, on the host.

#include "runtime/cuda/copy_bytes.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/simt/block.h"

namespace trireme::test {
namespace {

TEST(CopyBytes, CopiesAnyLengthFromAndToAnyAddress) {
    constexpr size_t kMost = 20000, kEdge = 64;
    std::vector<char> from(kMost + kEdge);
    for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 + i / 256);
    for (const size_t bytes : {size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{4096}, size_t{4097}, kMost}) {
        for (const size_t to_offset : {0, 1, 8}) {
            for (const size_t from_offset : {0, 4, 16}) {
                std::vector<char> to(kMost + kEdge, 'x'), want = to;
                std::copy_n(from.begin() + static_cast<ptrdiff_t>(from_offset), bytes,
                            want.begin() + static_cast<ptrdiff_t>(to_offset));

                const auto args = gpu::CopyBytes::args(to.data() + to_offset, from.data() + from_offset, bytes);
                simt::Block block;
                for (int64_t b = 0; b < gpu::CopyBytes::grid(args).x; ++b) {
                    block.run({static_cast<int>(b), 0, 0}, gpu::CopyBytes::kThreads, 0,
                              [&](simt::Gpu& gpu) { gpu::CopyBytes::run(gpu, args); });
                }

                EXPECT_EQ(to, want) << bytes << " bytes, offsets " << from_offset << " to " << to_offset;
            }
        }
    }
}

}  // namespace
}  // namespace trireme::test
