#include "offload/stream/read_runs.h"

#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using testing::ElementsAre;

std::vector<StreamedIndex> reads_of(const std::vector<int>& layers) {
    std::vector<StreamedIndex> reads;
    for (const int l : layers) reads.emplace_back(l);
    return reads;
}

std::vector<int64_t> times(const std::vector<int>& layers, int64_t frames, bool ring_holds = true) {
    return crossings(read_runs(reads_of(layers), frames, ring_holds), *std::ranges::max_element(layers) + 1,
                     ring_holds);
}

TEST(ReadRuns, AreOfOnChipOwnersNothing) {
    const std::vector<StreamedIndex> numbers = number_streamed(4, {false, true, true, false});
    EXPECT_THAT(numbers, ElementsAre(StreamedIndex(0), StreamedIndex(-1), StreamedIndex(-1), StreamedIndex(1)));
    const std::vector<OwnerIndex> reads = {OwnerIndex(0), OwnerIndex(1), OwnerIndex(3), OwnerIndex(3), OwnerIndex(0)};
    EXPECT_EQ(streamed_reads(reads, numbers), reads_of({0, 1, 1, 0}));
    EXPECT_THAT(number_streamed(2, {}), ElementsAre(StreamedIndex(-1), StreamedIndex(-1)));
}

// In LCKV and CLA, the layers that read an owner follow each other.
TEST(ReadRuns, CrossOnceWhereTheRingHoldsALayer) {
    EXPECT_THAT(times({0, 1, 1, 1, 1, 2}, 0), ElementsAre(1, 1, 1));
    EXPECT_THAT(times({0, 0, 1, 1, 2, 2}, 0), ElementsAre(1, 1, 1));
    EXPECT_EQ(useful_frames(reads_of({0, 0, 1, 1, 2, 2}), true), 0);
}

// The ring does not hold several sequences: one frame is read while the other one is filled.
TEST(ReadRuns, TakeTurnsInFramesWhereTheRingDoesNot) {
    const std::vector<int> cla = {0, 0, 1, 1, 2, 2};
    EXPECT_THAT(times(cla, 0, false), ElementsAre(2, 2, 2));
    EXPECT_EQ(useful_frames(reads_of(cla), false), 2);
    EXPECT_THAT(times(cla, 2, false), ElementsAre(1, 1, 1));
    const std::vector<ReadRun> runs = read_runs(reads_of(cla), 2, false);
    ASSERT_EQ(runs.size(), 3u);
    EXPECT_EQ(runs[0].frame, runs[2].frame);
    EXPECT_NE(runs[0].frame, runs[1].frame);
    // A single frame could not be filled while it is read.
    EXPECT_THAT(times(cla, 1, false), ElementsAre(1, 2, 2));
}

// Gemma's last layers alternate between two owners.
TEST(ReadRuns, StayFromFirstToLastReader) {
    const std::vector<int> turns = {0, 1, 2, 3, 2, 3, 2, 3};
    EXPECT_THAT(times(turns, 0), ElementsAre(1, 1, 3, 3));
    EXPECT_EQ(useful_frames(reads_of(turns), true), 2);
    EXPECT_THAT(times(turns, 1), ElementsAre(1, 1, 1, 3));
    EXPECT_THAT(times(turns, 2), ElementsAre(1, 1, 1, 1));
    const std::vector<ReadRun> runs = read_runs(reads_of(turns), 2, true);
    ASSERT_EQ(runs.size(), 8u);
    for (size_t r = 2; r < 8; ++r) {
        EXPECT_EQ(runs[r].first, r < 4) << r;
        EXPECT_EQ(runs[r].last, r >= 6) << r;
        EXPECT_TRUE(runs[r].held());
    }
    EXPECT_FALSE(runs[0].held());
}

// A layer that takes a frame has it from its first run to its last, and no other layer uses it in between.
TEST(ReadRuns, NeverShareAFrameAtOneTime) {
    std::mt19937 random(7);
    for (int trial = 0; trial < 3000; ++trial) {
        const int layers = static_cast<int>(random() % 6) + 1, n = static_cast<int>(random() % 14) + 1;
        std::vector<int> reads;
        for (int i = 0; i < n; ++i) reads.push_back(static_cast<int>(random() % static_cast<uint32_t>(layers)));
        const bool ring_holds = random() % 2 == 0;
        const int64_t useful = useful_frames(reads_of(reads), ring_holds);
        int64_t before = INT64_MAX;
        for (int64_t frames = 0; frames <= useful + 1; ++frames) {
            const std::vector<ReadRun> runs = read_runs(reads_of(reads), frames, ring_holds);
            std::map<int64_t, StreamedIndex> lies;  // by frame
            std::vector<int> seen;
            for (const ReadRun& run : runs) {
                seen.insert(seen.end(), static_cast<size_t>(run.attentions), static_cast<int>(run.layer.i));
                if (!run.held()) continue;
                ASSERT_LT(run.frame, frames);
                ASSERT_EQ(lies.contains(run.frame), !run.first);
                if (!run.first) {
                    ASSERT_EQ(lies[run.frame], run.layer);
                }
                lies[run.frame] = run.layer;
                if (run.last) lies.erase(run.frame);
            }
            EXPECT_EQ(seen, reads);
            EXPECT_TRUE(lies.empty());
            int64_t sum = 0;
            for (const int64_t c : crossings(runs, layers, ring_holds)) sum += c;
            EXPECT_LE(sum, before);
            before = sum;
            if (frames < useful) continue;
            for (const int64_t c : crossings(runs, layers, ring_holds)) EXPECT_LE(c, 1);
        }
    }
}

}  // namespace
}  // namespace trireme::test
