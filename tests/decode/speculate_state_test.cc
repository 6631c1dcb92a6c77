// Snapshots of a chain of levels: another chain continues from them with the same tokens, lengths and statistics.

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "decode/speculate.h"
#include "decode/suffix.h"
#include "tests/decode/kjv_prompt.h"
#include "tests/support/byte_archive.h"

namespace trireme::test {
namespace {

/// The model verifies what a copy of it, with its own cache, has verified of the proposals of suffix lookup.
struct Chain {
    Chain(Engine& engine, Comm& comm, const SamplingParams& sampling)
        : copy(engine.device(), comm, engine.weights(), {.k_type = DType::kF32, .v_type = DType::kF32}),
          held(engine.device(), copy, 20),
          middle(suffix, copy, sampling, 0, {.level = 1, .wanted = 4, .held = &held}),
          outer(middle, *engine, sampling, 0, {.gamma = &gamma}) {
        gamma.set_costs({"full", {{1, 10}}}, nullptr, 1);
    }
    /// Appends the tokens of rounds until there are at least `n`.
    void decode(std::vector<int32_t>& ids, size_t n, Stream& stream) {
        while (ids.size() < n) {
            const std::span<const Proposed> proposed = outer.propose(8);
            stream.synchronize();
            std::vector<int32_t> all(proposed.size());
            std::iota(all.begin(), all.end(), 0);
            for (const Proposed& p : proposed) ids.push_back(p.token);
            outer.resolve(all, -1);
            outer.commit();
        }
    }
    Suffix suffix{8};
    Level copy;
    DraftDistributions held;
    GammaController gamma;
    Speculate middle, outer;
};

using SpeculationState = KjvPrompt;

TEST_F(SpeculationState, ContinuesInAnotherChain) {
    request.max_new = 100;
    const std::vector<int32_t> plain = generate(*engine, tokenizer.get(), request, stats).at(0).ids;
    Chain first(engine, comm, request.sampling);
    std::vector<int32_t> ids;
    first.outer.prefill(request.prompt, {});
    first.outer.begin(0);
    first.decode(ids, 40, engine->stream());
    ByteArchive archive;
    first.outer.state(archive);

    Chain resumed(engine, comm, request.sampling);
    archive.rewind();
    resumed.outer.state(archive);
    EXPECT_EQ(archive.rest(), 0u);
    EXPECT_EQ(resumed.gamma.alpha(), first.gamma.alpha());
    EXPECT_NE(resumed.gamma.alpha(), GammaController().alpha());
    EXPECT_EQ(resumed.outer.stats().rounds, first.outer.stats().rounds);
    EXPECT_EQ(resumed.middle.stats().accepted, first.middle.stats().accepted);

    resumed.decode(ids, plain.size(), engine->stream());
    ids.resize(plain.size());
    EXPECT_EQ(ids, plain);
    EXPECT_GT(resumed.outer.stats().accepted, first.outer.stats().accepted);
}

// The outermost level's tiles are saved apart (launch/run/snapshot), those of the levels below with them.
TEST_F(SpeculationState, HoldsTheTilesOfTheLevelsBelow) {
    Chain chain(engine, comm, request.sampling);
    std::vector<int32_t> ids;
    chain.outer.prefill(request.prompt, {});
    chain.outer.begin(0);
    size_t middle_bytes = 0;
    for (const size_t n : {10u, 100u}) {
        chain.decode(ids, n, engine->stream());
        ByteArchive all, below;
        chain.outer.state(all);
        chain.middle.state(below);
        EXPECT_GE(below.all().size(), chain.copy.cache().bytes_of(chain.copy.cache().length(0)));
        EXPECT_LT(all.all().size(), below.all().size() + engine->cache().bytes_of(kTileTokens))
            << "the model's tiles too";
        EXPECT_GE(below.all().size(), middle_bytes);
        middle_bytes = below.all().size();
    }
}

TEST_F(SpeculationState, IsSavedBetweenRounds) {
    Chain chain(engine, comm, request.sampling);
    chain.outer.prefill(request.prompt, {});
    chain.outer.begin(0);
    ASSERT_FALSE(chain.outer.propose(8).empty());
    ByteArchive archive;
    EXPECT_THROW(chain.outer.state(archive), Error);
}

}  // namespace
}  // namespace trireme::test
