// Caches of q8_0: where keys and values are stored changes no bit; GPU and CPU agree.

#include <gtest/gtest.h>

#include "tests/model/llama/residency_story.h"

namespace trireme::test {
namespace {

RandomShape wide_heads(RandomShape s) {
    s.head_dim = 32;
    s.heads = 2;
    return s;
}

TEST(QuantisedKv, GivesTheSameBitsWhereverItIsStored) {
    const RandomShape shape = wide_heads(kShape);
    for (const auto& [k, v] : {std::pair{DType::kQ8_0, DType::kQ8_0}, {DType::kQ8_0, DType::kF16}}) {
        const Logits on_chip = tell(shape, with_types(options(3000), k, v), 1, 2300, 20);
        for (const int64_t ring : {2, 4}) {
            const Link link = ring == 4 && engine_device() == "cpu" ? Link{.gbps = 0.3, .us = 20} : Link{};
            const EngineOptions o = options(3000, residency({true, false, false, true, false}, ring, link));
            expect_same(tell(shape, with_types(o, k, v), 1, 2300, 20), on_chip,
                        fmt::format("{} {} ring {}", name_of(k), name_of(v), ring));
        }
        EXPECT_NE(on_chip, tell(shape, options(3000), 1, 2300, 20)) << "it rounds";
    }
}

TEST(QuantisedKv, GivesTheSameBitsAroundEveryTilesEdge) {
    const RandomShape shape = wide_heads(kShape);
    for (const int64_t prompt : {1, 255, 256, 257, 511, 512, 513, 769}) {
        const auto tell_it = [&](const Residency& r) {
            return tell(shape, with_types(options(2048, r), DType::kQ8_0, DType::kQ8_0), 1, prompt);
        };
        expect_same(tell_it(residency({false, false, false, false, false}, 3)), tell_it({}),
                    fmt::format("prompt {}", prompt));
    }
}

TEST(QuantisedKv, GivesTheSameBitsOnTwoRanksAndWhereLayersShareKeysAndValues) {
    if (!ranks_as_threads()) GTEST_SKIP() << "ranks are processes on a GPU";
    RandomShape two = wide_heads(kShape);
    two.kv_heads = 2;
    const auto tell_it = [&](const RandomShape& shape, const Residency& r, int ranks) {
        return tell(shape, with_types(options(1600, r), DType::kQ8_0, DType::kQ8_0), ranks, 900, 30);
    };
    expect_same(tell_it(two, residency({false, true, false, false, false}, 3), 2), tell_it(two, {}, 2), "2 ranks");
    const RandomShape sharing = wide_heads(shared());
    expect_same(tell_it(sharing, residency({false, false}, 2), 1), tell_it(sharing, {}, 1), "shared layers");
}

// 8 bits move every logit a little, relative to an f32 cache.
TEST(QuantisedKv, IsCloseToAnExactCache) {
    const RandomShape shape = wide_heads(kShape);
    EngineOptions exact = with_types(options(1600), DType::kF32, DType::kF32);
    exact.weights = DType::kF32;
    EngineOptions quantised = with_types(exact, DType::kQ8_0, DType::kQ8_0);
    const Logits want = tell(shape, exact, 1, 900, 30), got = tell(shape, quantised, 1, 900, 30);
    ASSERT_EQ(got.size(), want.size());
    double most = 0, off = 0;
    for (size_t r = 0; r < want.size(); ++r) {
        for (size_t i = 0; i < want[r].size(); ++i) {
            most = std::max(most, std::fabs(static_cast<double>(want[r][i])));
            off = std::max(off, std::fabs(static_cast<double>(want[r][i]) - static_cast<double>(got[r][i])));
        }
    }
    // An element is off by at most half a code, 1/254 of the largest of its block; five layers add up.
    EXPECT_LT(off, most * 5 / 254);
    EXPECT_GT(off, most * 1e-5);
}

}  // namespace
}  // namespace trireme::test
