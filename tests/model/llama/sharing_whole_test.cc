// Layers that read other layers' keys and values: any map, long prompts, several ranks, any KV placement.

#include "tests/model/llama/sharing_story.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

// Any map gives the results of its definition after r passes, also after earlier tokens, on several numbers of ranks.
TEST(LayerSharingWhole, AnyMapIsItsDefinition) {
    for (uint32_t seed = 0; seed < 12; ++seed) {
        HashedShape shape = random_shape(seed);
        const std::vector<int32_t> ids = hashed_ids(22, shape.vocab, seed);
        for (const int64_t passes : {1, 2, 5, 22}) {
            if (kSanitized && passes != 2 && passes != 22) continue;
            SharingReference reference{HashedModel(shape)};
            const auto first = reference.read(std::span(ids).first(13), std::min<int64_t>(passes, 13));
            const auto second = reference.read(std::span(ids).subspan(13, 7), std::min<int64_t>(passes, 7));
            const auto last = reference.decode(std::span(ids).last(2));
            for (const int ranks : {1, 2, 4}) {
                if (ranks > 1 && !ranks_as_threads()) continue;
                run_ranks(ranks, [&](Comm& comm) {
                    Loaded model(shape, comm);
                    const auto level = model.level(sharing_options(exactly(passes)));
                    const Logits one = read(*level, std::span(ids).first(13)),
                                 two = read(*level, std::span(ids).subspan(13, 7)),
                                 three = decode(*level, std::span(ids).last(2));
                    for (size_t i = 0; i < one.size(); ++i)
                        EXPECT_LT(difference(one[i], first[i]), kTolerance)
                            << shape.layer_map << " " << passes << " " << i;
                    for (size_t i = 0; i < two.size(); ++i)
                        EXPECT_LT(difference(two[i], second[i]), kTolerance)
                            << shape.layer_map << " " << passes << " " << i;
                    for (size_t i = 0; i < three.size(); ++i)
                        EXPECT_LT(difference(three[i], last[i]), kTolerance)
                            << shape.layer_map << " " << passes << " " << i;
                });
            }
        }
    }
}

// Some hundreds of tokens: several batches and tiles.
TEST(LayerSharingWhole, LongPromptsAreTheirDefinition) {
    const HashedShape shape = {.layer_map = "0_3_3_3_4", .layers = 5, .dim = 16, .ffn = 12, .vocab = 24, .scale = 0.45};
    for (const int64_t n : {300, 600}) {
        const std::vector<int32_t> ids = hashed_ids(n, shape.vocab, 5);
        SharingReference reference{HashedModel(shape)};
        const auto wanted = reference.read(ids, 3);
        SelfComm comm;
        Loaded model(shape, comm);
        for (const std::vector<bool>& owners : {std::vector<bool>{true, true, true}, {false, false, false}}) {
            const auto level = model.level(sharing_options(exactly(3), on_chip(owners)));
            const Logits said = read(*level, ids);
            for (size_t i = 0; i < said.size(); i += 7)
                EXPECT_LT(difference(said[i], wanted[i]), kTolerance) << n << " " << i;
        }
    }
}

// kExact takes passes until nothing changes: the results are decoding's, and more passes change no bit. kAuto takes
// fewer passes, until changes are small enough.
TEST(LayerSharingWhole, ExactIsDecodingAndAutoStopsBefore) {
    const HashedShape shape = {.layer_map = "0_3_3_3_4", .layers = 5, .dim = 16, .ffn = 12, .vocab = 24, .scale = 0.25};
    const std::vector<int32_t> ids = hashed_ids(60, shape.vocab, 3);
    for (const int ranks : {1, 2}) {
        if (ranks > 1 && !ranks_as_threads()) continue;
        run_ranks(ranks, [&](Comm& comm) {
            Loaded model(shape, comm);
            const auto exact = model.level(sharing_options({.how = Passes::How::kExact}));
            const auto all = model.level(sharing_options(exactly(60)));
            const auto some = model.level(sharing_options({.how = Passes::How::kAuto, .tolerance = 1e-2}));
            const Logits one = read(*exact, ids), two = read(*all, ids), three = read(*some, ids);
            EXPECT_EQ(one, two);
            EXPECT_EQ(all->passes(), 60);
            EXPECT_LT(exact->passes(), 60);
            EXPECT_LT(some->passes(), exact->passes());
            EXPECT_GT(some->passes(), 2);
            const auto wanted = SharingReference{HashedModel(shape)}.decode(ids);
            for (size_t i = 0; i < one.size(); ++i) EXPECT_LT(difference(one[i], wanted[i]), kTolerance) << i;
            for (size_t i = 0; i < three.size(); ++i) EXPECT_LT(difference(three[i], wanted[i]), 0.1) << i;
        });
    }
}

// KV placement changes no bit. A step fetches a streamed owner once, however many layers read it, also if these do not
// follow each other: then frames hold it.
TEST(LayerSharingWhole, ResidencyChangesNoBit) {
    const HashedShape shape = {
        .layer_map = "0_4_4_4_4_5", .layers = 6, .dim = 16, .ffn = 12, .vocab = 24, .scale = 0.45};
    const std::vector<int32_t> ids = hashed_ids(1500, shape.vocab, 4);
    for (const char* map : {"0_4_4_4_4_5", "3_0_5_3_4_5", "2_2_2_5_5_5", "0_1_0_1_0_1", "5_1_1_5_1_5"}) {
        if (kSanitized && map[0] != '3') continue;
        HashedShape s = shape;
        s.layer_map = map;
        SelfComm comm;
        Loaded model(s, comm);
        const int64_t owners = HashedModel(s).config().layer_map.owners();
        Logits wanted;
        for (int streamed = 0; streamed < 5; ++streamed) {
            std::vector<bool> chip;
            for (int64_t o = 0; o < owners; ++o) chip.push_back(streamed == 0 || (streamed == 1 && o % 2 == 0));
            Residency residency = on_chip(chip);
            residency.frames = streamed < 4 ? owners : 0;
            residency.hidden_on_host = streamed == 3;
            const auto level = model.level(sharing_options(exactly(4), residency));
            Logits said = read(*level, std::span(ids).first(1200));
            for (Logits more :
                 {read(*level, std::span(ids).subspan(1200, 290)), decode(*level, std::span(ids).last(10))}) {
                said.insert(said.end(), more.begin(), more.end());
            }
            if (streamed == 0) wanted = said;
            EXPECT_EQ(said, wanted) << map << " " << streamed;
            if (streamed == 0) continue;
            level->cache().transport()->drain();
            level->stream().synchronize();
            const LinkUse before = level->cache().transport()->use();
            decode(*level, std::span(ids).first(1));
            level->stream().synchronize();
            level->cache().transport()->drain();
            const KvShape& kv = level->cache().shape();
            // Without frames an owner crosses the link again for each reader that does not follow the one before.
            const LayerMap layers = HashedModel(s).config().layer_map;
            int64_t crosses = 0;
            for (LayerIndex l; l.i < layers.layers(); ++l) {
                const bool follows = l.i > 0 && layers.source(LayerIndex(l.i - 1)) == layers.source(l);
                crosses += streamed == 4 && !follows ? 1 : 0;
            }
            if (streamed < 4) crosses = std::ranges::count(chip, false);
            // 1,500 tokens: tiles below the newest two are in host memory.
            EXPECT_EQ((level->cache().transport()->use() - before).h2d_bytes,
                      static_cast<uint64_t>(crosses * 4) * kv.layout.tile_bytes())
                << map << " " << streamed;
        }
    }
}

// Several owners of a block alternate in the prefill window in every pass, and their passes are compared even so.
TEST(LayerSharingWhole, PassesEndAsTheyEndOnChip) {
    const std::vector<int32_t> ids = hashed_ids(70, 24, 6);
    for (const char* map : {"3_0_5_3_4_5", "0_4_4_4_4_5", "5_5_3_5_5_5"}) {
        const HashedShape shape = {.layer_map = map, .layers = 6, .dim = 16, .ffn = 12, .vocab = 24, .scale = 0.2};
        SelfComm comm;
        Loaded model(shape, comm);
        const auto owners = static_cast<size_t>(HashedModel(shape).config().layer_map.owners());
        for (const Passes& passes :
             {Passes{.how = Passes::How::kExact}, {.how = Passes::How::kAuto, .tolerance = 1e-2}}) {
            const auto chip = model.level(sharing_options(passes)),
                       streamed = model.level(sharing_options(passes, on_chip(std::vector<bool>(owners, false))));
            EXPECT_EQ(read(*streamed, ids), read(*chip, ids)) << map;
            EXPECT_EQ(streamed->passes(), chip->passes()) << map;
        }
    }
}

}  // namespace
}  // namespace trireme::test
