// From the highest owner on, a prompt's last row is computed alone: any map, any length, any KV placement.

#include "tests/model/llama/sharing_story.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

struct Work {
    const char* map;
    int64_t passes;
    int64_t attentions;  // of a prompt of three batches, with only the last token's logits requested
};
// Written with b = 3 batches: each layer below the highest owner takes b attentions, each layer from it on 1. In passes
// before the last one, each iterated layer except the block's last takes b.
const Work kWork[] = {
    {"0_1_2_3_4", 1, 3 * 4 + 1},                  // Llama
    {"0_1_1_1_1", 1, 3 * 1 + 4},                  // YOCO
    {"0_0_0_0_0", 1, 5},                          // nothing is below the highest owner
    {"0_0_2_2_2", 1, 3 * 2 + 3},                  // CLA
    {"0_0_1_0_0", 1, 3 * 1 + 4},                  // the highest owner reads another layer
    {"0_3_3_3_4", 2, 3 + 3 * 2 + 3 * 3 + 1},      // LCKV
    {"0_2_2_2_2", 2, 3 + 3 * 1 + 3 * 1 + 3},      // pizza-middle
    {"4_4_4_4_4", 3, 3 * 4 + 3 * 4 + 3 * 4 + 1},  // all layers read the last one
    {"1_1_4_4_4", 2, 3 * (1 + 2) + 3 * (2 + 2) + 1},
    {"1_2_0_1_2", 2, 3 * 2 + 3 * 2 + 3},  // every owner reads another one
};

uint64_t attentions(Level& level, std::span<const int32_t> ids, bool all_rows) {
    const uint64_t before = level.stream().spent("attention_prefill").count;
    level.prefill(0, ids, {}, all_rows ? EachLogits([](int64_t, const HostTensor&) {}) : EachLogits());
    return level.stream().spent("attention_prefill").count - before;
}

TEST(LastRowWhole, GoesAloneFromTheHighestOwnerOn) {
    const std::vector<int32_t> ids = hashed_ids(2 * kPrefillRows + 1, 16);
    SelfComm comm;
    for (const Work& w : kWork) {
        const HashedShape shape = {.layer_map = w.map, .layers = 5, .scale = 0.4};
        const LayerMap map = HashedModel(shape).config().layer_map;
        Loaded model(shape, comm);
        for (const bool chip : {true, false}) {
            const auto level = model.level(sharing_options(
                exactly(w.passes), on_chip(std::vector<bool>(static_cast<size_t>(map.owners()), chip))));
            EXPECT_EQ(attentions(*level, ids, false), static_cast<uint64_t>(w.attentions)) << w.map << chip;
            level->truncate(0, 0);
            int64_t all = 3 * map.layers();
            for (const LayerBlock& b : map.blocks()) {
                if (b.iterated) all += 3 * (w.passes - 1) * (b.end.i - b.first.i - 1);
            }
            EXPECT_EQ(attentions(*level, ids, true), static_cast<uint64_t>(all)) << w.map << chip;
        }
    }
}

/// Logits of a prompt's last token, of the last token of a second prompt after it, and of tokens decoded after both.
Logits said(Level& level, std::span<const int32_t> ids, size_t first, size_t second) {
    Logits all;
    for (const std::span<const int32_t> part : {ids.first(first), ids.subspan(first, second)}) {
        level.prefill(0, part);
        const Matrix<float> m = level.logits().host().as<float>();
        EXPECT_EQ(m.rows, 1);
        all.emplace_back(m.row(0), m.row(0) + m.cols);
    }
    for (std::vector<float>& row : decode(level, ids.subspan(first + second))) all.push_back(std::move(row));
    return all;
}

/// Like said(), but the logits of all rows are requested.
Logits said_of_all(Level& level, std::span<const int32_t> ids, size_t first, size_t second) {
    Logits all = {read(level, ids.first(first)).back(), read(level, ids.subspan(first, second)).back()};
    for (std::vector<float>& row : decode(level, ids.subspan(first + second))) all.push_back(std::move(row));
    return all;
}

// Any map gives the results of its definition, on several numbers of ranks; KV on chip and streamed gives the same
// bits.
TEST(LastRowWhole, IsItsDefinition) {
    uint32_t seed = 40;
    for (const size_t n : {1, 2, 255, 256, 257, 511, 512, 513, 1024, 1025}) {
        if (kSanitized && n != 1 && n != 257 && n != 512) continue;
        for (int maps = 0; maps < (n < 300 && !kSanitized ? 3 : 1); ++maps, ++seed) {
            const HashedShape shape = random_shape(seed);
            const size_t more = 1 + seed * 97 % 300;
            const std::vector<int32_t> ids = hashed_ids(static_cast<int64_t>(n + more) + 2, shape.vocab, seed);
            const int64_t passes = 1 + seed % 3;
            SharingReference reference{HashedModel(shape)};
            std::vector<std::vector<double>> exact = {
                reference.read(std::span(ids).first(n), std::min<int64_t>(passes, static_cast<int64_t>(n))).back(),
                reference.read(std::span(ids).subspan(n, more), std::min<int64_t>(passes, static_cast<int64_t>(more)))
                    .back()};
            for (auto& row : reference.decode(std::span(ids).last(2))) exact.push_back(row);
            const auto owners = static_cast<size_t>(HashedModel(shape).config().layer_map.owners());
            for (const int ranks : {1, 2, 4}) {
                if (ranks > 1 && !ranks_as_threads()) continue;
                run_ranks(ranks, [&](Comm& comm) {
                    Loaded model(shape, comm);
                    Logits on_device;
                    for (const int streamed : {0, 1, 2}) {
                        Residency residency = on_chip(std::vector<bool>(owners, streamed == 0));
                        residency.hidden_on_host = streamed == 2;
                        const auto level = model.level(sharing_options(exactly(passes), residency));
                        const Logits got = said(*level, ids, n, more);
                        if (streamed == 0) on_device = got;
                        EXPECT_EQ(got, on_device) << shape.layer_map << ", " << n << " tokens, " << streamed;
                        for (size_t i = 0; i < exact.size(); ++i) {
                            EXPECT_LT(difference(got[i], exact[i]), kTolerance)
                                << shape.layer_map << ", " << n << " tokens, " << i;
                        }
                    }
                });
            }
        }
    }
}

// The CPU's prefill gives a row the same bits in a batch and alone: a request for the other rows' logits changes none.
// A GPU's library may multiply one row otherwise than 512.
TEST(LastRowWhole, HasTheBitsThatItHasAmongAllOnTheCpu) {
    if (engine_device() != "cpu") GTEST_SKIP() << "on " << engine_device() << " nothing is promised";
    SelfComm comm;
    for (uint32_t seed = 90; seed < 102; ++seed) {
        const HashedShape shape = random_shape(seed);
        const std::vector<int32_t> ids = hashed_ids(700, shape.vocab, seed);
        Loaded model(shape, comm);
        const auto alone = model.level(sharing_options(exactly(2))), among = model.level(sharing_options(exactly(2)));
        EXPECT_EQ(said(*alone, ids, 530, 165), said_of_all(*among, ids, 530, 165)) << shape.layer_map;
    }
}

}  // namespace
}  // namespace trireme::test
