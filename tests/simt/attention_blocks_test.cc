// Blocks of the attention that have nothing to do: a graph's grid covers the whole context, whatever is cached.

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/merge_splits.h"
#include "tests/simt/run_block.h"

namespace trireme::simt {
namespace {

constexpr int64_t kDim = 8, kTiles = 4, kRecord = gpu::kMaxAndSum + kDim;
constexpr float kUntouched = -7;

/// One head, one sequence, `slots.size()` rows in tiles of zeros.
struct Cache {
    explicit Cache(std::vector<int32_t> rows)
        : slots(std::move(rows)), cached(slots), sequences(slots.size()), ancestors(slots.size() * gpu::kStaged) {
        const auto at = [](auto& tile) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(tile.data())); };
        for (auto& tile : tiles) table.push_back(at(tile));
        for (size_t r = 0; r < slots.size(); ++r) ancestors[r * gpu::kStaged] = static_cast<int32_t>(r);
        slots.push_back(kTiles * gpu::kTile);  // a row that is not part of the call
    }
    gpu::AttendTile<float, 1>::Args attend() {
        const int32_t slot = kDim * sizeof(float);
        auto* staged_rows = reinterpret_cast<char*>(staged.data());
        const auto n = static_cast<int64_t>(cached.size());
        return {.kv = {{table.data(), kTiles},
                       1,
                       0,
                       kTiles,
                       1,
                       kDim,
                       staged_rows,
                       staged_rows,
                       DType::kF32,
                       DType::kF32,
                       slot,
                       slot},
                .seen = {slots.data(), sequences.data(), cached.data(), {ancestors.data(), gpu::kStaged}, n, n, false},
                .q = {q.data(), kDim},
                .kv_of_head = sequences.data(),
                .heads = 1,
                .first_tile = 0,
                .max_slots = kTiles * gpu::kTile,
                .records = records.data(),
                .scale = 1};
    }

    std::vector<int32_t> slots, cached, sequences, ancestors;
    std::vector<std::vector<float>> tiles{kTiles, std::vector<float>(2 * gpu::kTile * kDim)};
    std::vector<int64_t> table;
    std::vector<float> staged = std::vector<float>(gpu::kStaged * kDim), q = std::vector<float>(64 * kDim),
                       records = std::vector<float>(64 * kTiles * kRecord, kUntouched);
};

TEST(AttendTileBlocks, LeaveWhereNoRowSeesAnything) {
    struct Case {
        std::vector<int32_t> slots;
        int64_t tiles;  // tiles that some row sees
    };
    for (const auto& [slots, tiles] : {Case{{0}, 1},
                                       {{255}, 1},
                                       {{256}, 2},
                                       {{700}, 3},
                                       {{1023}, 4},
                                       {{300, 2, 1}, 2},
                                       {{2, 512, 3}, 3},
                                       {{1, 2, 768}, 4}}) {
        Cache cache(slots);
        const auto args = cache.attend();
        for (int tile = 0; tile < kTiles; ++tile) {
            run_block<gpu::AttendTile<float, 1>>({tile, 0, 0}, args);
            const auto* first = cache.records.data() + tile * args.seen.rows * kRecord;
            const bool untouched =
                std::all_of(first, first + args.seen.rows * kRecord, [](float x) { return x == kUntouched; });
            EXPECT_EQ(untouched, tile >= tiles) << "tile " << tile << ", last slot " << slots.back();
        }
    }
}

// After a row's last tile, neither `running` nor `out` is written.
TEST(MergeSplitsBlocks, WriteOutWithTheRowsLastTileAndLeaveAfterwards) {
    const std::vector<float> records(2 * kRecord, 1);
    const int32_t kv_head = 0;
    for (const int tiles : {1, 2}) {
        for (const int32_t slot : {0, 255, 256, 511, 512, 1023, 1024}) {
            const int last = slot / gpu::kTile / tiles;  // wave
            std::vector<float> running(kRecord, kUntouched);
            const gpu::Seen seen = {&slot, nullptr, nullptr, {}, 1, 1, false};
            for (int wave = 0; wave < 6; ++wave) {
                std::vector<float> out(kDim, kUntouched);
                const std::vector<float> before = running;
                run_block<gpu::MergeSplits<gpu::TileSplits>>({0, 0, 0},
                                                             {records.data(),
                                                              running.data(),
                                                              {out.data(), kDim},
                                                              seen,
                                                              &kv_head,
                                                              1,
                                                              kDim,
                                                              {0, 6 * tiles * gpu::kTile, wave * tiles, tiles}});
                EXPECT_EQ(out[0], wave == last ? 1 : kUntouched) << "slot " << slot << " wave " << wave;
                EXPECT_EQ(running != before, wave < last) << "slot " << slot << " wave " << wave;
            }
        }
    }
}

// A head of a prefill that sees no slot before its own first one has no records of the tiles before.
TEST(AttendTileBlocks, LeaveWhatItsHeadDoesNotSee) {
    for (const int32_t begin : {0, 255, 256, 700, 1000}) {
        Cache cache({1000});
        auto args = cache.attend();
        args.seen.prefill = true;
        args.seen.begins = &begin;
        for (int tile = 0; tile < kTiles; ++tile) {
            run_block<gpu::AttendTile<float, 1>>({tile, 0, 0}, args);
            const float* record = cache.records.data() + tile * kRecord;
            if (tile < begin / gpu::kTile) {
                EXPECT_EQ(record[1], kUntouched) << "tile " << tile << ", from " << begin;
            } else {  // all scores are 0
                const int first = std::max(begin - tile * gpu::kTile, 0), end = std::min(1001 - tile * gpu::kTile, 256);
                EXPECT_EQ(record[1], static_cast<float>(end - first)) << "tile " << tile << ", from " << begin;
            }
        }
    }
}

TEST(MergeSplitsBlocks, BeginWithTheFirstTileThatTheHeadSees) {
    const int32_t slot = 1023, kv_head = 0;
    for (const int32_t begin : {0, 300, 600, 1023}) {
        for (const int64_t tiles : {1, 2, 3, 4}) {
            std::vector<float> running(kRecord), out(kDim), totals(2);
            gpu::Seen seen = {&slot, nullptr, nullptr, {}, 1, 1, true};
            seen.begins = &begin;
            for (int64_t first = 0; first < kTiles; first += tiles) {
                std::vector<float> records(static_cast<size_t>(tiles * kRecord), NAN);
                for (int64_t t = std::max(first, int64_t{begin / gpu::kTile}); t < first + tiles; ++t) {
                    std::fill_n(records.begin() + (t - first) * kRecord, kRecord, 1.0F);
                }
                run_block<gpu::MergeSplits<gpu::TileSplits>>({0, 0, 0}, {records.data(),
                                                                         running.data(),
                                                                         {out.data(), kDim},
                                                                         seen,
                                                                         &kv_head,
                                                                         1,
                                                                         kDim,
                                                                         {0, kTiles * gpu::kTile, first, tiles},
                                                                         {totals.data(), 2}});
            }
            EXPECT_EQ(out, std::vector<float>(kDim, 1)) << "from " << begin << ", waves of " << tiles;
            EXPECT_EQ(totals, (std::vector<float>{1, static_cast<float>(kTiles - begin / gpu::kTile)}));
        }
    }
}

// Sums are in tile order, however many records are in flight at once.
TEST(MergeSplitsBlocks, MergeInTheOrderOfTheTiles) {
    constexpr int64_t kHeads = 2, kRows = 3, kMerged = kHeads * kRows * kRecord;
    for (const int64_t tiles : {1, 2, 15, 16, 17, 31, 32, 33, 70}) {
        std::vector<float> records(static_cast<size_t>(tiles * kMerged)), running(kMerged), out(kRows * kHeads * kDim);
        uint32_t x = 1;
        for (float& r : records) r = static_cast<float>((x = x * 1664525 + 1013904223) >> 8) * 0x1p-20f;
        const std::vector<int32_t> slots(kRows, static_cast<int32_t>(tiles * gpu::kTile - 1));
        const gpu::Seen seen = {slots.data(), nullptr, nullptr, {}, kRows, kRows, false};
        const int32_t kv_of_head[kHeads] = {};
        for (int head = 0; head < kHeads; ++head) {
            for (int row = 0; row < kRows; ++row) {
                run_block<gpu::MergeSplits<gpu::TileSplits>>({head, row, 0}, {records.data(),
                                                                              running.data(),
                                                                              {out.data(), kHeads * kDim},
                                                                              seen,
                                                                              kv_of_head,
                                                                              kHeads,
                                                                              kDim,
                                                                              {0, tiles * gpu::kTile, 0, tiles}});
                for (int64_t i = 0; i < kDim; ++i) {
                    float max = -INFINITY, sum = 0, acc = 0;
                    for (int64_t t = 0; t < tiles; ++t) {
                        const float* part = records.data() + t * kMerged + (head * kRows + row) * kRecord;
                        const float top = std::fmax(max, part[0]), old = exp2f(max - top), fresh = exp2f(part[0] - top);
                        max = top;
                        sum = fmaf(sum, old, part[1] * fresh);
                        acc = fmaf(acc, old, part[gpu::kMaxAndSum + i] * fresh);
                    }
                    EXPECT_EQ(out[static_cast<size_t>((row * kHeads + head) * kDim + i)], acc / sum) << tiles;
                }
            }
        }
    }
}

TEST(GradedSplits, PartitionTheTiles) {
    using gpu::GradedSplits;
    int64_t tile = 0;
    for (int64_t split = 0; split < 300; ++split) {
        const int64_t first = GradedSplits::first_tile(split), end = GradedSplits::first_tile(split + 1);
        EXPECT_EQ(first, tile);
        EXPECT_EQ(end - first, first < 8 ? 1 : first < 32 ? 2 : first < 128 ? 4 : 8) << "from tile " << first;
        for (; tile < end; ++tile) EXPECT_EQ(GradedSplits::of_tile(tile), split) << "tile " << tile;
    }
    EXPECT_EQ(GradedSplits::of_tile(511) + 1, 92);  // of 128K tokens
}

// Parts end within splits of two tiles: records are merged when their split is complete, or when the row ends in it.
TEST(MergeSplitsBlocks, MergeASplitOfTwoPartsOnce) {
    using Splits = gpu::GradedSplits;
    const int32_t kv_head = 0;
    constexpr int64_t kAll = 12;  // tiles
    const std::vector<float> records(kAll * kRecord, 1);
    for (const int32_t slot : {8 * 256 - 1, 8 * 256, 9 * 256 - 1, 9 * 256, 10 * 256, 12 * 256 - 1}) {
        for (const int64_t step : {1, 2, 3, 5, 12}) {
            std::vector<float> running(kRecord, kUntouched), out(kDim, kUntouched), totals(2, kUntouched);
            const gpu::Seen seen = {&slot, nullptr, nullptr, {}, 1, 1, false};
            int written = 0;
            for (int64_t first = 0; first < kAll; first += step) {
                const int64_t end = std::min(first + step, kAll), split = Splits::of_tile(first);
                const gpu::Wave wave = {first * gpu::kTile, end * gpu::kTile, split,
                                        Splits::of_tile(end - 1) + 1 - split};
                std::fill(totals.begin(), totals.end(), kUntouched);
                run_block<gpu::MergeSplits<Splits>>({0, 0, 0}, {records.data(),
                                                                running.data(),
                                                                {out.data(), kDim},
                                                                seen,
                                                                &kv_head,
                                                                1,
                                                                kDim,
                                                                wave,
                                                                {totals.data(), 2}});
                if (totals[0] == kUntouched) continue;
                ++written;
                EXPECT_EQ(slot / gpu::kTile >= first && slot / gpu::kTile < end, true) << slot << " parts of " << step;
                EXPECT_EQ(totals[1], static_cast<float>(Splits::of_tile(slot / gpu::kTile) + 1)) << slot << " " << step;
            }
            EXPECT_EQ(written, 1) << slot << " parts of " << step;
            EXPECT_EQ(out, std::vector<float>(kDim, 1));
        }
    }
}

}  // namespace
}  // namespace trireme::simt
