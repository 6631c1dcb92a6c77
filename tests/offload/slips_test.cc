// Every wait of the copy path is needed and none is missing: as written no access races with another; each wait left
// out once, and each mark once not made, makes a race.

#include <initializer_list>

#include <gtest/gtest.h>

#include "tests/offload/copy_story.h"

namespace trireme::test {
namespace {

/// Two requests' lives. The waits it took, and what raced.
struct Told {
    int64_t waits;
    std::string race;
};
Told tell(int64_t ring, int passes = 1, int64_t slip_at = -1, Ordering::Slip slip = Ordering::Slip::kNone) {
    CopyStory story(ring);
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
    story.truncate(0, 300);               // all of it lies in the newest tiles
    decode(0, {64, 64, 64, 64});
    story.truncate(1, 270);
    story.prefill(1, 700, passes);
    decode(0, {1});
    story.prefill(0, 1100, passes, /*alone=*/true);
    decode(0, {64, 64, 64});
    return {story.order().waits(), story.race()};
}

class Copies : public testing::TestWithParam<int64_t> {};

TEST_P(Copies, NeverRace) {
    for (const int passes : {1, 3}) {
        const Told told = tell(GetParam(), passes);
        EXPECT_EQ(told.race, "") << passes;
        EXPECT_GT(told.waits, 100);
    }
}
INSTANTIATE_TEST_SUITE_P(Rings, Copies, testing::Values(2, 3, 5, 8));

// In slots of one tile: with more, a wait for a slot may be for tiles of it that nobody uses.
TEST(Slips, EveryWaitAndEveryMarkIsNeeded) {
    constexpr int64_t kRing = 8;
    const int64_t waits = tell(kRing).waits;
    for (const Ordering::Slip slip : {Ordering::Slip::kNoWait, Ordering::Slip::kNoRecord}) {
        for (int64_t i = 0; i < waits; ++i) {
            EXPECT_NE(tell(kRing, 1, i, slip).race, "")
                << (slip == Ordering::Slip::kNoWait ? "wait " : "mark of wait ") << i << " of " << waits;
        }
    }
}

}  // namespace
}  // namespace trireme::test
