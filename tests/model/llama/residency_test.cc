// Wherever tiles are stored and however they are copied, the bits are those of a model with all KV on chip.

#include <gtest/gtest.h>

#include "tests/model/llama/residency_story.h"

namespace trireme::test {
namespace {

const std::vector<std::vector<bool>> kResidencies = {{false, false, false, false, false},
                                                     {true, false, false, false, false},
                                                     {false, true, false, true, false},
                                                     {true, false, true, true, false},
                                                     {true, true, true, true, false}};

TEST(Residency, ChangesNoBitAroundEveryTilesEdge) {
    for (const int64_t prompt : {1, 255, 256, 257, 511, 512, 513, 700, 767, 768, 769, 1023, 1024, 1025}) {
        const Logits on_chip = tell(kShape, options(2048), 1, prompt);
        for (const auto& on_chip_layers : kResidencies) {
            expect_same(tell(kShape, options(2048, residency(on_chip_layers, 4)), 1, prompt), on_chip,
                        fmt::format("prompt {}", prompt));
        }
    }
}

TEST(Residency, ChangesNoBitForAnyRingOrLink) {
    const int64_t prompt = 2300;
    const Logits on_chip = tell(kShape, options(3000), 1, prompt, 40);
    for (const int64_t ring : {2, 3, 4, 5, 6, 7, 8}) {
        for (const Link& link : {Link{}, Link{.gbps = 0.2, .us = 30}}) {
            if (link.gbps > 0 && engine_device() != "cpu") continue;
            expect_same(tell(kShape, options(3000, residency(kResidencies[2], ring, link)), 1, prompt, 40), on_chip,
                        fmt::format("ring {} link {}", ring, link.gbps));
        }
    }
}

TEST(Residency, ChangesNoBitOnTwoAndFourRanks) {
    if (!ranks_as_threads()) GTEST_SKIP() << "ranks are processes on a GPU";
    const int64_t prompt = 900;
    for (const int ranks : {2, 4}) {
        const Logits on_chip = tell(kShape, options(1600), ranks, prompt, 30);
        expect_same(tell(kShape, options(1600, residency(kResidencies[2], 3)), ranks, prompt, 30), on_chip,
                    fmt::format("{} ranks", ranks));
    }
}

TEST(Residency, ChangesNoBitWhereLayersShareKeysAndValues) {
    const int64_t prompt = 900;
    const Logits on_chip = tell(shared(), options(1600), 1, prompt, 30);
    for (const std::vector<bool>& on_chip_layers :
         std::vector<std::vector<bool>>{{false, false}, {true, false}, {false, true}}) {
        expect_same(tell(shared(), options(1600, residency(on_chip_layers, 2)), 1, prompt, 30), on_chip, "shared");
    }
}

// Layers 1, 2 and 3 own keys and values that others read, and read another owner's themselves.
TEST(Residency, ChangesNoBitWhereOwnersReadOthers) {
    RandomShape shape = kShape;
    shape.layer_map = "0_0_1_2_3";
    const Logits on_chip = tell(shape, options(1600), 1, 900, 30);
    for (const std::vector<bool>& on : std::vector<std::vector<bool>>{
             {false, false, false, false}, {true, false, true, false}, {false, true, false, false}}) {
        Residency r = residency(on, 2);
        expect_same(tell(shape, options(1600, r), 1, 900, 30), on_chip, "owners that read others");
        r.hidden_on_host = true;
        expect_same(tell(shape, options(1600, r), 1, 900, 30), on_chip, "the same, hidden states on the host");
    }
}

TEST(Residency, HiddenStatesOnTheHostChangeNoBit) {
    for (const int64_t prompt : {300, 1500, 2300}) {  // blocks that remain in place, and blocks that do not
        const Logits on_chip = tell(kShape, options(3200), 1, prompt);
        Residency r = residency(kResidencies[2], 3);
        r.hidden_on_host = true;
        expect_same(tell(kShape, options(3200, r), 1, prompt), on_chip, fmt::format("prompt {}", prompt));
    }
}

TEST(Residency, ALongPromptIsTheSame) {
    const Logits on_chip = tell(kShape, options(9600), 1, 9000, 3);
    expect_same(tell(kShape, options(9600, residency(kResidencies[0], 8)), 1, 9000, 3), on_chip, "9000 tokens");
}

TEST(Residency, SequencesOfOneForwardAreStreamedOneAfterTheOther) {
    const auto run = [](const Residency& r) {
        Logits all;
        run_ranks(1, [&](Comm& comm) {
            EngineOptions o = options(1200, r);
            o.sequences = 3;
            Engine engine(std::make_unique<RandomModel>(kShape), o, comm, 1, engine_device());
            const std::vector<int64_t> lengths = {800, 1, 520};
            for (int s = 0; s < 3; ++s) engine->prefill(s, some_ids(lengths[static_cast<size_t>(s)], 5));
            for (int step = 0; step < 270; ++step) {
                std::vector<Row> rows;
                for (int32_t s = 0; s < 3; ++s) {
                    rows.push_back({.token = s + step % 50,
                                    .position = static_cast<int32_t>(engine->length(s)),
                                    .parent = -1,
                                    .sequence = s});
                }
                engine->forward(rows);
                if (step % 30 == 0) keep_logits(all, engine->logits().host());
                for (int32_t s = 0; s < 3; ++s) engine->keep(s, std::vector<int32_t>{s});
            }
        });
        return all;
    };
    expect_same(run(residency(kResidencies[2], 3)), run({}), "three sequences");
}

}  // namespace
}  // namespace trireme::test
