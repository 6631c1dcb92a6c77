// A million tiles go to the host and come back with their digests, under copies that are late at random.

#include <random>

#include <gtest/gtest.h>

#include "tests/offload/late_device.h"
#include "tests/offload/tile_story.h"

namespace trireme::test {
namespace {

/// Requests at random until `trips` tiles have gone to the device; returns their number.
uint64_t travel(uint64_t trips, bool coded) {
    const size_t tile = size_t{2} * kTileTokens * TileStory::kDim * sizeof(float);
    std::mt19937 lateness(3);
    LateDevice device([&] { return lateness() % 64 == 0 ? static_cast<int>(lateness() % 100) : 0; });
    TileStory story(device, 64 * kTileTokens, coded);
    std::mt19937 random(5);
    uint64_t gone = 0;
    for (int step = 0; gone < trips; ++step) {
        const int64_t room = story.kv().shape().context - story.kv().length(0);
        if (room < 64) {
            story.truncate(static_cast<int64_t>(random() % 4000) + 10'000);
        } else if (story.kv().length(0) < 12'000) {
            story.prefill(std::min<int64_t>(room, 3000));
        } else {
            story.decode(static_cast<int64_t>(random() % 64) + 1);
        }
        if (step % 16 == 0) {
            story.finish();  // throws if a digest differs
            gone = story.kv().transport()->use().h2d_plain_bytes / (coded ? tile / 2 : tile);
        }
    }
    return gone;
}

TEST(RoundTrips, AMillionTilesArriveAsTheyLeft) {
    EXPECT_GE(travel(1'000'000, /*coded=*/false), 1'000'000U);
}

TEST(RoundTrips, AHundredThousandCodedTilesArriveAsTheyLeft) {
    EXPECT_GE(travel(100'000, /*coded=*/true), 100'000U);
}

}  // namespace
}  // namespace trireme::test
