// Blocks of sampling and of acceptance, whose operands end where memory ends.

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/accept.h"
#include "kernels/cuda/sample.h"
#include "tests/simt/block.h"
#include "tests/support/fence.h"

namespace trireme::simt {
namespace {

constexpr int64_t kVocab = 4;
constexpr uint64_t kHalf = SamplingRule::kOne / 2;

template <class Body>
void run_block(const typename Body::Args& args) {
    Block block;
    block.run({0, 0, 0}, Body::kThreads, Body::kSharedBytes, [&](Gpu& gpu) { Body::run(gpu, args); });
    EXPECT_EQ(block.fault.kind, gpu::Fault::kNone);
}

/// Elements that an inaccessible page follows: multiples of 16 bytes.
template <class T>
class Fenced {
  public:
    explicit Fenced(const std::vector<T>& values) : size_(values.size()) {
        std::uninitialized_copy(values.begin(), values.end(), data());
    }
    T* data() const { return static_cast<T*>(memory_.get()); }
    T operator[](size_t i) const { return data()[i]; }

  private:
    struct Free {
        size_t bytes;
        void operator()(void* p) const { test::fenced_free(p, bytes); }
    };
    size_t size_;
    std::unique_ptr<void, Free> memory_{test::fenced_allocate(size_ * sizeof(T)), Free{size_ * sizeof(T)}};
};

/// A row of logits, and its distribution without filters.
struct Row {
    explicit Row(const std::vector<float>& values) : logits(values) {
        run_block<gpu::Sample>({.logits = logits.data(),
                                .rows = 1,
                                .cols = static_cast<int64_t>(values.size()),
                                .vocab = static_cast<int64_t>(values.size()),
                                .uniforms = uniform.data(),
                                .ends = nullptr,
                                .ids = id.data(),
                                .distributions = distribution.data(),
                                .rule = {.scale = 1, .top_k = 0, .top_p = SamplingRule::kOne, .min_weight = 0}});
    }
    Fenced<float> logits;
    Fenced<int64_t> uniform{{static_cast<int64_t>(kHalf)}};
    Fenced<int32_t> id{{-7}};
    Fenced<RowDistribution> distribution{{RowDistribution{}}};
};

TEST(SampleBlocks, ReadNoLogitAfterTheRow) {
    // More than a token for each thread.
    std::vector<float> logits(gpu::Sample::kThreads + 4, -std::numeric_limits<float>::infinity());
    logits[0] = -1, logits[1] = 0, logits[logits.size() - 2] = logits[logits.size() - 1] = -2;
    const Row row(logits);  // weights 4, 8, 2, 2 of 16; by weight: ids 1, 0, then the last two
    EXPECT_EQ(row.id[0], 0);
    EXPECT_EQ(row.distribution[0].sum, uint64_t{16} << 37);
}

TEST(AcceptBlocks, WriteAWeightForEachId) {
    Fenced<float> logits({-1, 0, -2, -2, -1, 0, -2, -2, -1, 0, -2, -2});  // after the sequence, and after each proposal
    const RowDistribution distribution = Row({-1, 0, -2, -2}).distribution[0];
    Fenced<RowDistribution> distributions({distribution, distribution, distribution});
    // Point masses on token 1, of 8 / 16, and on token 0, of 4 / 8, are refused. Weights 4, 2, 2 are written between.
    Fenced<Proposal> proposals({{.uniform = kHalf}, {.token = 1, .uniform = kHalf}, {.token = 0, .uniform = kHalf}});
    Fenced<uint64_t> weights(std::vector<uint64_t>(kVocab, 7));
    Fenced<int32_t> out({-7, -7, -7, -7});
    run_block<gpu::Accept>({.proposals = proposals.data(),
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
