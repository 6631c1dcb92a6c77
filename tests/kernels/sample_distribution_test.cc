// sample(): the distributions of rows, on every backend.

#include "tests/kernels/sample_harness.h"

namespace trireme::test {
namespace {

// The GPU adds the low 32 bits of weights, with a carry where they overflow. Without the largest token, the weights
// here sum to 2^32 - 1, one less than an overflow. Their ids are multiples of 8, because the GPU keeps a sum for each
// id modulo 8.
TEST(SampleDistribution, ASumOfAllOnesHasNoCarry) {
    const double t = M_LOG2E;
    const auto scale = rule_of(off(t)).scale;
    const auto weighs = [&](float logit) { return weight_of(logit, 0, scale); };
    uint64_t left = (uint64_t{1} << 32) - 1;
    Logits logits(8, -kInf);
    logits[1] = 0;
    // From 2^24 downwards; the last weight is above 2^9. Around it every integer is the weight of some logit.
    for (float logit = -16.001f; left > 0; logit = std::nextafter(logit, -kInf)) {
        while (left == weighs(logit) || left > weighs(logit) + 600) {
            left -= weighs(logit);
            logits.push_back(logit);
            logits.resize(logits.size() + 7, -kInf);
        }
        ASSERT_GT(weighs(logit), 512u) << left;
    }
    const RowDistribution d = drawn({logits}, off(t), {{0.5}}).distributions[0];
    EXPECT_EQ(d.sum, (uint64_t{1} << 40) + (uint64_t{1} << 32) - 1);
}

TEST(SampleDistribution, GivesDistributionsWithoutTokens) {
    const std::vector<Logits> logits = {{0, 3, 1, 2, -1}, {5, 3, 1, 2, -1}};
    for (const SamplingParams& p : {off(), off(0)}) {
        Machine m;
        Operand in = divided(logits, 2, 1), distributions(DType::kI64, 2, kRowDistributionWords);

        m->sample({}, by_part(in, 1), 5, {}, rule_of(p), distributions.tensor());
        m.stream->synchronize();

        const Drawn with = drawn(logits, p, {{0.5}, {0.5}});
        for (int64_t r = 0; r < 2; ++r) {
            const auto& alone = *reinterpret_cast<const RowDistribution*>(&distributions.at<int64_t>(r, 0));
            EXPECT_EQ(alone.sum, with.distributions[static_cast<size_t>(r)].sum);
            EXPECT_EQ(alone.floor, with.distributions[static_cast<size_t>(r)].floor);
        }
        EXPECT_TRUE(distributions.intact());
    }
}

TEST(SampleDistribution, TheFloorOfTopKIsItsLastTokenEvenOfWeightZero) {
    const Logits logits = {-100, 0, -101, -100, -102};
    for (const auto& [top_k, id] : {std::pair(1, 1), {2, 0}, {3, 3}, {4, 2}}) {
        SamplingParams p = off();
        p.top_k = top_k;
        const RowDistribution d = drawn({logits}, p, {{0.5}}).distributions[0];
        EXPECT_EQ(d.floor, order_key(logits[static_cast<size_t>(id)], id)) << top_k;
        EXPECT_EQ(d.sum, uint64_t{1} << 40) << top_k;
    }
}

}  // namespace
}  // namespace trireme::test
