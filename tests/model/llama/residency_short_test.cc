// A short residency_test for slow devices: two tiles of two layers are streamed.

#include <gtest/gtest.h>

#include "tests/model/llama/residency_story.h"

namespace trireme::test {
namespace {

TEST(ResidencyInShort, ChangesNoBit) {
    RandomShape shape = kShape;
    shape.layers = 3;
    shape.heads = 1;
    shape.dim = 16;
    shape.ffn = 16;
    const auto run = [&](const Residency& r) {
        Logits all;
        run_ranks(1, [&](Comm& comm) {
            Engine engine(std::make_unique<RandomModel>(shape), options(1024, r), comm, 1, engine_device());
            engine->prefill(0, some_ids(760, 7));
            keep_logits(all, engine->logits().host());
            all.push_back(engine.step(1));
            grow(engine, all, 3);  // past 768: a tile goes to the host
            all.push_back(engine.step(2));
            engine->truncate(0, 700);  // and one comes back
            all.push_back(engine.step(4));
            engine->prefill(0, some_ids(20, 9));
            keep_logits(all, engine->logits().host());
        });
        return all;
    };
    Residency r = residency({false, true, false}, 2);
    r.hidden_on_host = true;
    const Logits on_chip = run({});
    expect_same(run(r), on_chip, "streamed");
    r.coded = true;
    expect_same(run(r), on_chip, "streamed, coded");
}

}  // namespace
}  // namespace trireme::test
