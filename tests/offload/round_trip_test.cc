// A million tiles go to the host and come back with their digests, under copies that are late at random.

#include <random>

#include <gtest/gtest.h>

#include "runtime/trace.h"
#include "tests/offload/late_device.h"
#include "tests/offload/tile_story.h"

namespace trireme::test {
namespace {

TEST(RoundTrips, AMillionTilesArriveAsTheyLeft) {
    constexpr uint64_t kTrips = 1'000'000;
    const size_t tile = size_t{2} * kTileTokens * TileStory::kDim * sizeof(float);
    trace::reset_totals();
    std::mt19937 lateness(3);
    LateDevice device([&] { return lateness() % 64 == 0 ? static_cast<int>(lateness() % 100) : 0; });
    TileStory story(device, 64 * kTileTokens);
    std::mt19937 random(5);
    uint64_t trips = 0;
    for (int step = 0; trips < kTrips; ++step) {
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
            trips = trace::total("kv_h2d").bytes / tile;
        }
    }
    EXPECT_GE(trips, kTrips);
}

}  // namespace
}  // namespace trireme::test
