// Coded tiles change no bit of a request, whatever is coded: types, placements, ranks, frames, shared tiles.

#include <gtest/gtest.h>

#include "tests/model/llama/residency_story.h"

namespace trireme::test {
namespace {

Residency coded(const std::vector<bool>& on_chip, int64_t ring, const Link& link = {}) {
    Residency r = residency(on_chip, ring, link);
    r.coded = true;
    return r;
}

TEST(CodedResidency, ChangesNoBitForAnyTypeRingAndLink) {
    for (const DType k : {DType::kBF16, DType::kF16}) {
        for (const DType v : {DType::kBF16, DType::kF16}) {
            const Logits on_chip = tell(kShape, with_types(options(3000), k, v), 1, 2300, 20);
            for (const int64_t ring : {2, 4, 7}) {
                const Link link = ring == 4 && engine_device() == "cpu" ? Link{.gbps = 0.3, .us = 20} : Link{};
                const EngineOptions o =
                    with_types(options(3000, coded({true, false, false, true, false}, ring, link)), k, v);
                expect_same(tell(kShape, o, 1, 2300, 20), on_chip,
                            fmt::format("{} {} ring {}", name_of(k), name_of(v), ring));
            }
        }
    }
}

TEST(CodedResidency, ChangesNoBitAroundEveryTilesEdge) {
    for (const int64_t prompt : {1, 255, 256, 257, 511, 512, 513, 767, 768, 769, 1025}) {
        const auto tell_it = [&](const Residency& r) {
            return tell(kShape, with_types(options(2048, r), DType::kBF16, DType::kBF16), 1, prompt);
        };
        expect_same(tell_it(coded({false, false, false, false, false}, 3)), tell_it({}),
                    fmt::format("prompt {}", prompt));
    }
}

TEST(CodedResidency, ChangesNoBitOnTwoRanksNorWhereLayersShareKeysAndValues) {
    if (!ranks_as_threads()) GTEST_SKIP() << "ranks are processes on a GPU";
    const auto tell_it = [&](const RandomShape& shape, const Residency& r, int ranks) {
        return tell(shape, with_types(options(1600, r), DType::kBF16, DType::kF16), ranks, 900, 30);
    };
    expect_same(tell_it(kShape, coded({false, true, false, false, false}, 3), 2), tell_it(kShape, {}, 2), "2 ranks");
    for (const int64_t frames : {0, 1}) {
        Residency r = coded({false, false}, 2);
        r.frames = frames;
        r.hidden_on_host = frames == 1;
        expect_same(tell_it(shared(), r, 1), tell_it(shared(), {}, 1), fmt::format("{} frames", frames));
    }
}

}  // namespace
}  // namespace trireme::test
