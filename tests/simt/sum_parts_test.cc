// The ordered sum of NCCL's ranks, on the host.

#include "dist/cuda/sum_parts.h"

#include <vector>

#include <gtest/gtest.h>

#include "dist/ordered_sum.h"
#include "tests/simt/block.h"

namespace trireme::test {
namespace {

TEST(SumParts, HasTheBitsOfTheOrderedSumOnEveryRank) {
    for (const int ranks : {2, 3, 5}) {
        for (const int64_t n : {1, 255, 256, 257, 1000}) {
            std::vector<std::vector<float>> given(static_cast<size_t>(ranks));
            uint32_t x = 1;
            for (auto& part : given) {
                for (int64_t i = 0; i < n; ++i) {
                    x = x * 1664525 + 1013904223;
                    part.push_back(static_cast<float>(static_cast<int32_t>(x)) * static_cast<float>(1 << (x >> 28)));
                }
            }
            std::vector<float> want(static_cast<size_t>(n));
            ordered_sum(want.data(), ranks, n, [&](int r) { return given[static_cast<size_t>(r)].data(); });

            for (int own = 0; own < ranks; ++own) {
                const int64_t stride = n + 3;
                std::vector<float> parts(static_cast<size_t>(stride * ranks), NAN),
                    out = given[static_cast<size_t>(own)];
                for (int r = 0; r < ranks; ++r) {
                    if (r == own) continue;  // no rank sends to itself
                    std::copy(given[static_cast<size_t>(r)].begin(), given[static_cast<size_t>(r)].end(),
                              parts.begin() + r * stride);
                }
                out.push_back(-7);  // must remain
                const gpu::SumParts::Args args = {out.data(), parts.data(), stride, n, ranks, own};
                simt::Block block;
                for (int64_t b = 0; b < gpu::div_up(n, gpu::SumParts::kThreads); ++b) {
                    block.run({static_cast<int>(b), 0, 0}, gpu::SumParts::kThreads, 0,
                              [&](simt::Gpu& gpu) { gpu::SumParts::run(gpu, args); });
                }
                EXPECT_EQ(out.back(), -7);
                out.pop_back();
                EXPECT_EQ(out, want) << ranks << " ranks, " << n << " floats, rank " << own;
            }
        }
    }
}

}  // namespace
}  // namespace trireme::test
