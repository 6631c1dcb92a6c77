// Blocks of sampling and of acceptance: an inaccessible page follows each of their operands.

#include <array>
#include <iterator>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "kernels/cuda/accept.h"
#include "kernels/cuda/sample.h"
#include "tests/simt/run_block.h"
#include "tests/support/fence.h"

namespace trireme::simt {
namespace {

constexpr int64_t kVocab = 4;
constexpr uint64_t kHalf = SamplingRule::kOne / 2;

/// A row of logits, and its distribution without filters.
struct Row {
    explicit Row(test::FencedVector<float> values) : logits(std::move(values)) {
        run_block<gpu::Sample>({0, 0, 0},
                               {.logits = logits.data(),
                                .rows = 1,
                                .cols = std::ssize(logits),
                                .vocab = std::ssize(logits),
                                .uniforms = uniform.data(),
                                .ends = nullptr,
                                .ids = id.data(),
                                .distributions = distribution.data(),
                                .rule = {.scale = 1, .top_k = 0, .top_p = SamplingRule::kOne, .min_weight = 0}});
    }
    test::FencedVector<float> logits;
    test::FencedVector<int64_t> uniform{static_cast<int64_t>(kHalf)};
    test::FencedVector<int32_t> id{-7};
    test::FencedVector<RowDistribution> distribution{RowDistribution{}};
};

TEST(SampleBlocks, ReadNoLogitAfterTheRow) {
    // More tokens than threads, so that a thread loads several at once and some of them are past the end.
    test::FencedVector<float> logits(gpu::Sample::kThreads + 4, -std::numeric_limits<float>::infinity());
    logits[0] = -1, logits[1] = 0, logits[logits.size() - 2] = logits[logits.size() - 1] = -2;
    const Row row(logits);  // weights 4, 8, 2, 2 of 16; by weight: ids 1, 0, then the last two
    EXPECT_EQ(row.id[0], 0);
    EXPECT_EQ(row.distribution[0].sum, uint64_t{16} << 37);
}

TEST(AcceptBlocks, WriteAWeightForEachId) {
    test::FencedVector<float> logits{-1, 0,  -2, -2, -1, 0,
                                     -2, -2, -1, 0,  -2, -2};  // after the sequence, and after each proposal
    const RowDistribution distribution = Row({-1, 0, -2, -2}).distribution[0];
    test::FencedVector<RowDistribution> distributions{distribution, distribution, distribution};
    // Two siblings without a draft distribution are rejected: token 1, of probability 8 / 16, then token 0, of 4 / 8.
    // The weights after the first rejection are written: 4, 0, 2, 2 times a constant.
    test::FencedVector<Proposal> proposals{
        {.uniform = kHalf}, {.token = 1, .uniform = kHalf}, {.token = 0, .uniform = kHalf}};
    test::FencedVector<uint64_t> weights(kVocab, 7);
    test::FencedVector<int32_t> out{-7, -7, -7, -7};
    run_block<gpu::Accept>({0, 0, 0}, {.proposals = proposals.data(),
                                       .distributions = distributions.data(),
                                       .logits = logits.data(),
                                       .nodes = 2,
                                       .rows = 3,
                                       .cols = kVocab,
                                       .part_stride = 3 * kVocab,
                                       .vocab = kVocab,
                                       .weights = weights.data(),
                                       .out = out.data()});
    EXPECT_EQ(out[0], 0);
    EXPECT_EQ(out[1], 3);
    const uint64_t unit = weights[3];
    EXPECT_GT(unit, 0u);
    for (size_t i = 0; i < kVocab; ++i)
        EXPECT_EQ(weights[i], (std::array<uint64_t, kVocab>{2, 0, 1, 1}[i] * unit)) << i;
}

}  // namespace
}  // namespace trireme::simt
