// Every wait of the copy path is needed and none is missing. As written, no access races with another; each omitted
// wait and each omitted mark causes a race.

#include <functional>
#include <initializer_list>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/offload/copy_story.h"

namespace trireme::test {
namespace {

/// The result of a run of two requests: the number of waits, and the first race.
struct Told {
    int64_t waits;
    std::string race;
};
struct Life {
    int64_t ring = 8, frames = 0;
    int passes = 1;
    bool coded = false;
};
Told tell(const Life& life, int64_t slip_at = -1, Ordering::Slip slip = Ordering::Slip::kNone) {
    const auto [ring, frames, passes, coded] = life;
    CopyStory story(ring, frames, /*common=*/0, coded);
    story.order().slip(slip_at, slip);
    const auto decode = [&](int sequence, std::initializer_list<int64_t> steps, bool other_too = false) {
        for (const int64_t rows : steps) story.decode(sequence, rows, other_too);
    };
    story.prefill(0, 1500, passes);
    decode(0, {50, 50, 50, 50, 50, 1});  // a tile is full at 1,536
    story.prefill(1, 300, passes, /*alone=*/true);
    decode(1, {32, 32, 32, 32, 32, 32}, /*other_too=*/true);
    story.truncate(0, 1000);
    decode(0, {60, 60, 60, 60, 60, 60});  // past 1,024 and 1,280, other rows than before
    story.truncate(0, 300);               // all of it is in the newest tiles
    decode(0, {64, 64, 64, 64});
    story.truncate(1, 270);
    story.prefill(1, 700, passes);
    decode(0, {1});
    story.prefill(0, 1100, passes, /*alone=*/true);
    decode(0, {64, 64, 64});
    return {story.order().waits(), story.race()};
}

/// The second sequence is forked from the first one and truncated to the prompt, and both grow.
Told tell_of_common(const Life& life, int64_t prompt, int64_t common, int64_t slip_at = -1,
                    Ordering::Slip slip = Ordering::Slip::kNone) {
    CopyStory story(life.ring, life.frames, common, life.coded);
    story.order().slip(slip_at, slip);
    const auto decode = [&](int sequence, std::initializer_list<int64_t> steps) {
        for (const int64_t rows : steps) story.decode(sequence, rows, /*other_too=*/true);
    };
    story.prefill(0, prompt, life.passes);
    story.fork();
    decode(0, {32, 32, 32, 32, 32, 32, 32, 32, 32, 32});
    decode(1, {1, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32, 32});
    story.truncate(1, prompt);
    decode(1, {32, 32, 32, 32, 32, 32, 32, 32, 32, 32});
    story.truncate(0, prompt);
    decode(0, {32, 32, 32});
    return {story.order().waits(), story.race()};
}

class Copies : public testing::TestWithParam<std::tuple<int64_t, bool>> {};

TEST_P(Copies, NeverRace) {
    for (const int passes : {1, 3}) {
        for (const int64_t frames : {0, 1, 2}) {
            const auto& [ring, coded] = GetParam();
            const Life life = {.ring = ring, .frames = frames, .passes = passes, .coded = coded};
            const Told told = tell(life);
            EXPECT_EQ(told.race, "") << passes << " " << frames;
            EXPECT_GT(told.waits, 100);
            for (const int64_t prompt : {600, 512, 300}) {
                for (const int64_t common : {0, 256, 512}) {
                    if (common > prompt) continue;
                    EXPECT_EQ(tell_of_common(life, prompt, common).race, "")
                        << passes << " " << frames << " " << prompt << " " << common;
                }
            }
        }
    }
}
INSTANTIATE_TEST_SUITE_P(Rings, Copies, testing::Combine(testing::Values(2, 3, 5, 8), testing::Bool()));

// Ring slots hold one tile: in larger ones, a wait for a slot may be for tiles of it that are not used.
// `unnoticed_share`: the share of slips that need not be noticed.
void expect_all_needed(const std::function<Told(int64_t slip_at, Ordering::Slip slip)>& told,
                       double unnoticed_share = 0) {
    const int64_t waits = told(-1, Ordering::Slip::kNone).waits;
    double unnoticed = 0;
    for (const Ordering::Slip slip : {Ordering::Slip::kNoWait, Ordering::Slip::kNoRecord}) {
        for (int64_t i = 0; i < waits; ++i) {
            if (!told(i, slip).race.empty()) continue;
            EXPECT_LT(unnoticed++, unnoticed_share * static_cast<double>(2 * waits))
                << (slip == Ordering::Slip::kNoWait ? "wait " : "mark of wait ") << i << " of " << waits;
        }
    }
}
TEST(Slips, EveryWaitAndEveryMarkIsNeeded) {
    expect_all_needed([](int64_t at, Ordering::Slip slip) { return tell({}, at, slip); });
}
TEST(Slips, EveryWaitIsNeededWhereALayerIsHeld) {
    expect_all_needed([](int64_t at, Ordering::Slip slip) { return tell({.frames = 1}, at, slip); });
}
TEST(Slips, EveryWaitIsNeededWhereTilesAreCoded) {
    // The host blocks until tiles are coded, and thereby orders all work. Before such a place some waits order nothing
    // else, and a tile without a code waits for all that is being decoded.
    expect_all_needed([](int64_t at, Ordering::Slip slip) { return tell({.coded = true}, at, slip); },
                      /*unnoticed_share=*/0.1);
}
TEST(Slips, EveryWaitIsNeededWhereTilesAreShared) {
    expect_all_needed([](int64_t at, Ordering::Slip slip) { return tell_of_common({}, 600, 512, at, slip); });
}

}  // namespace
}  // namespace trireme::test
