// AttendSplit beyond what the contract of attention shows: splits that parts interrupt, irregular heads, blocks that
// have nothing to do.

#include "kernels/cuda/attention_split.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/attention_cost.h"
#include "tests/simt/block.h"

namespace trireme::simt {
namespace {

constexpr int64_t kDim = 64, kTiles = 14, kRecord = gpu::kMaxAndSum + kDim, kRows = 3;
constexpr float kUntouched = -7;
using Body = gpu::AttendSplit<f16, kDim, 1>;
using Splits = gpu::GradedSplits;

/// One sequence of random f16 keys and values; a chain of rows whose tokens are staged.
struct Cache {
    explicit Cache(int32_t tokens, std::vector<int32_t> kv_of_head = {0}, int32_t chain = kRows)
        : rows(chain), heads(std::move(kv_of_head)), kv_heads(heads.back() + 1) {
        std::mt19937 random(5);
        std::normal_distribution<float> normal;
        const auto fill = [&](std::vector<f16>& x) {
            for (f16& e : x) e = f16(normal(random));
        };
        for (int64_t t = 0; t < kTiles; ++t) {
            tiles.emplace_back(2 * kv_heads * gpu::kTile * kDim);
            fill(tiles.back());
        }
        for (auto& tile : tiles) table.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(tile.data())));
        staged.resize(static_cast<size_t>(kv_heads * gpu::kStaged * kDim));
        fill(staged);
        for (int32_t r = 0; r < rows; ++r) {
            slots.push_back(tokens + r);
            for (int32_t i = 0; i <= r; ++i) ancestors[static_cast<size_t>(r * gpu::kStaged + i)] = i;
        }
        cached.assign(rows_size(), tokens);
        q.resize(rows_size() * heads.size() * kDim);
        for (float& e : q) e = normal(random);
    }
    size_t rows_size() const { return static_cast<size_t>(rows); }
    int64_t record_floats() const { return rows * static_cast<int64_t>(heads.size()) * kRecord; }
    /// Attends tiles [first, end); returns the records of their splits.
    template <class Kernel = Body>
    std::vector<float> attend(int64_t first, int64_t end, int width = 1) {
        const int64_t split = Splits::of_tile(first), splits = Splits::of_tile(end - 1) + 1 - split;
        std::vector<float> records(static_cast<size_t>(splits * record_floats()), kUntouched);
        auto* staged_rows = reinterpret_cast<char*>(staged.data());
        const int32_t slot = kDim * sizeof(f16);
        const typename Kernel::Args args = {.kv = {{table.data(), kTiles},
                                                   1,
                                                   0,
                                                   kTiles,
                                                   kv_heads,
                                                   kDim,
                                                   staged_rows,
                                                   staged_rows,
                                                   DType::kF16,
                                                   DType::kF16,
                                                   slot,
                                                   slot},
                                            .seen = {slots.data(),
                                                     sequences.data(),
                                                     cached.data(),
                                                     {ancestors.data(), gpu::kStaged},
                                                     rows,
                                                     rows,
                                                     false,
                                                     nullptr,
                                                     nullptr,
                                                     window},
                                            .q = {q.data(), static_cast<int64_t>(heads.size()) * kDim},
                                            .kv_of_head = heads.data(),
                                            .heads = static_cast<int64_t>(heads.size()),
                                            .max_slots = kTiles * gpu::kTile,
                                            .wave = {first * gpu::kTile, end * gpu::kTile, split, splits},
                                            .width = width,
                                            .records = records.data(),
                                            .open = open.data(),
                                            .open_rows = rows,
                                            .scale = gpu::kLog2E / 8};
        for (int64_t z = 0; z < splits; ++z) {
            for (int y = 0; y < kv_heads; ++y) {
                for (int x = 0; x < width; ++x) {
                    block.run({x, y, static_cast<int>(z)}, Kernel::kThreads, Kernel::kSharedBytes,
                              [&](Gpu& gpu) { Kernel::run(gpu, args); });
                    EXPECT_EQ(block.fault.kind, gpu::Fault::kNone);
                }
            }
        }
        return records;
    }

    /// Result of row r and head h, in double.
    std::vector<double> reference(int32_t r, int32_t h) const {
        const int64_t kv_head = heads[static_cast<size_t>(h)], group = kv_heads * gpu::kTile * kDim;
        std::vector<double> sum(kDim);
        double total = 0;
        const float* query = q.data() + (r * static_cast<int64_t>(heads.size()) + h) * kDim;
        for (int64_t s = std::max<int64_t>(0, slots[static_cast<size_t>(r)] + 1 - window);
             s <= slots[static_cast<size_t>(r)]; ++s) {
            const int64_t depth = s - cached[static_cast<size_t>(r)];
            const f16 *key, *value;
            if (depth < 0) {
                key =
                    tiles[static_cast<size_t>(s / gpu::kTile)].data() + (kv_head * gpu::kTile + s % gpu::kTile) * kDim;
                value = key + group;
            } else {
                const int32_t row = ancestors[static_cast<size_t>(r * gpu::kStaged + depth)];
                key = value = staged.data() + (kv_head * gpu::kStaged + row) * kDim;
            }
            double score = 0;
            for (int64_t i = 0; i < kDim; ++i) score += double{query[i]} * static_cast<float>(key[i]);
            const double weight = std::exp(score / 8);
            total += weight;
            for (int64_t i = 0; i < kDim; ++i) sum[static_cast<size_t>(i)] += weight * static_cast<float>(value[i]);
        }
        for (double& x : sum) x /= total;
        return sum;
    }
    /// Merges the records of all splits that row r sees, from the one with its first slot on.
    std::vector<double> merged(const std::vector<float>& records, int32_t r, int32_t h) const {
        std::vector<double> sum(kDim);
        double total = 0;
        const int64_t end = slots[static_cast<size_t>(r)], begin = std::max<int64_t>(0, end + 1 - window);
        for (int64_t split = Splits::of_tile(begin / gpu::kTile); split <= Splits::of_tile(end / gpu::kTile); ++split) {
            const float* record = records.data() + split * record_floats() + (h * rows + r) * kRecord;
            total += record[1] * std::exp2(double{record[0]});
            for (int64_t i = 0; i < kDim; ++i) {
                sum[static_cast<size_t>(i)] += record[gpu::kMaxAndSum + i] * std::exp2(double{record[0]});
            }
        }
        for (double& x : sum) x /= total;
        return sum;
    }
    /// Compares the merged records of a row with the reference.
    void expect(const std::vector<float>& records, int32_t r, const std::string& what) const {
        for (int32_t h = 0; h < std::ssize(heads); ++h) {
            const std::vector<double> want = reference(r, h), got = merged(records, r, h);
            for (size_t i = 0; i < want.size(); ++i) {
                ASSERT_NEAR(got[i], want[i], 2e-6) << what << ", row " << r << ", head " << h;
            }
        }
    }

    int64_t rows;
    std::vector<int32_t> heads;
    int64_t kv_heads;
    int64_t window = gpu::Seen::kEvery;
    std::vector<std::vector<f16>> tiles;
    std::vector<int64_t> table;
    std::vector<f16> staged;
    std::vector<int32_t> slots, cached, sequences = std::vector<int32_t>(rows_size()),
                                        ancestors = std::vector<int32_t>(rows_size() * gpu::kStaged);
    std::vector<float> q, open = std::vector<float>(64 * rows_size() * kRecord, NAN);
    Block block;
};

// Tiles 8 and 9 are a split, and so are 10 and 11: parts of one tile interrupt them. The second half's record is that
// of the whole split, bit for bit.
TEST(AttendSplits, OfTwoTilesContinueInTheNextPart) {
    Cache cache(11 * gpu::kTile + 40, {0, 0, 0, 0});  // 12 vectors: a lane has two
    const int64_t one = cache.record_floats();
    const std::vector<float> whole = cache.attend(8, 12);
    for (const int64_t split : {0, 1}) {
        const std::vector<float> first = cache.attend(8 + 2 * split, 9 + 2 * split);
        for (int64_t i = 0; i < one; ++i)
            ASSERT_EQ(first[static_cast<size_t>(i)], kUntouched) << "an open split has no record";

        const std::vector<float> second = cache.attend(9 + 2 * split, 10 + 2 * split);

        for (int64_t i = 0; i < one; ++i) {
            ASSERT_EQ(second[static_cast<size_t>(i)], whole[static_cast<size_t>(split * one + i)]) << split << " " << i;
        }
    }
}

// A row that begins with the second half continues nothing: the open records are NaN.
TEST(AttendSplits, ARowThatBeginsWithAPartContinuesNothing) {
    Cache cache(11 * gpu::kTile + 40, {0}, 1);
    cache.window = 2 * gpu::kTile + 41;  // begins with tile 9
    EXPECT_EQ(cache.attend(9, 10), cache.attend(8, 10));
}

// A row that ends in the first half of a split has its record there.
TEST(AttendSplits, ARowThatEndsInAPartIsNotOpen) {
    Cache cache(8 * gpu::kTile + 10);
    const std::vector<float> whole = cache.attend(8, 10), half = cache.attend(8, 9);
    EXPECT_EQ(half, whole);
    EXPECT_NE(half[1], kUntouched);
}

TEST(AttendSplits, LeaveWhereNoRowSeesAnything) {
    Cache cache(3 * gpu::kTile - kRows);  // the rows' slots are the last of tile 2
    const std::vector<float> records = cache.attend(0, 8);
    for (int64_t split = 0; split < 8; ++split) {
        const bool untouched = records[static_cast<size_t>(split * cache.record_floats() + 1)] == kUntouched;
        EXPECT_EQ(untouched, split > 2) << split;
    }
}

// 7 heads read KV head 0, one reads KV head 1. A grid that is too narrow for 7 heads of 3 rows gives the same.
TEST(AttendSplits, TakeAllGroupsOfIrregularHeads) {
    Cache cache(700, {0, 0, 0, 0, 0, 0, 0, 1});
    EXPECT_EQ(cache.attend(0, 3, 1), cache.attend(0, 3, 2));
    for (const float x : cache.attend(0, 3, 1)) ASSERT_NE(x, kUntouched);
}

// Chains and siblings, whole and cut by a window, some rows' slots in the next tile; 3 and 21 vectors of a KV head.
TEST(AttendSplits, MatchTheReferenceInAnyNumberOfTiles) {
    for (const int32_t tokens : {0, 31, 254, 300, 2304}) {
        for (const int64_t window : {gpu::Seen::kEvery, int64_t{40}}) {
            for (const bool siblings : {false, true}) {
                Cache cache(tokens, {0, 0, 0, 0, 0, 0, 0, 1});
                cache.window = window;
                if (siblings) {  // row 2 follows row 0, as row 1 does
                    cache.slots[2] = tokens + 1;
                    cache.ancestors[2 * gpu::kStaged + 1] = 2;
                }
                const int64_t tiles = (tokens + kRows - 1) / gpu::kTile + 1;
                const std::vector<float> one = cache.attend<gpu::AttendSplit<f16, kDim, 1>>(0, tiles, 2),
                                         two = cache.attend<gpu::AttendSplit<f16, kDim, 2>>(0, tiles),
                                         four = cache.attend<gpu::AttendSplit<f16, kDim, 4>>(0, tiles);
                EXPECT_EQ(one, two);
                EXPECT_EQ(one, four);
                for (int32_t r = 0; r < kRows; ++r) cache.expect(one, r, std::to_string(tokens) + " tokens");
            }
        }
    }
}

// Query vectors of a group: one, the most, one more than that, and rows whose bounds only one lane holds.
TEST(AttendSplits, MatchTheReferenceForAnyNumberOfVectors) {
    constexpr std::pair<int, int> kHeadsAndRows[] = {{1, 1},  {1, 2},  {16, 1}, {17, 1},
                                                     {1, 17}, {16, 2}, {32, 1}, {32, 2}};
    for (const auto& [heads, rows] : kHeadsAndRows) {
        for (const int32_t last : {32, 256}) {  // the last row's slot alone is in another step, or another tile
            Cache cache(last + 1 - rows, std::vector<int32_t>(static_cast<size_t>(heads), 0), rows);
            const int64_t tiles = last / gpu::kTile + 1;
            const auto one = cache.attend<gpu::AttendSplit<f16, kDim, 1>>(0, tiles, (heads * rows + 15) / 16);
            std::vector<std::vector<float>> others = {cache.attend<gpu::AttendSplit<f16, kDim, 2>>(0, tiles)};
            // Once for each order in which threads of a block may run.
            for (int i = 0; i < 4; ++i) others.push_back(cache.attend<gpu::AttendSplit<f16, kDim, 4>>(0, tiles));
            for (int32_t r = 0; r < rows; ++r) {
                cache.expect(one, r, std::to_string(heads) + " heads, " + std::to_string(rows) + " rows");
                for (int32_t h = 0; h < heads; ++h) {
                    const std::vector<double> want = cache.merged(one, r, h);
                    for (const auto& records : others) EXPECT_EQ(cache.merged(records, r, h), want);
                }
            }
        }
    }
}

// A row may see nothing while others of its group see many keys.
TEST(AttendSplits, ARowWithoutKeysGetsNone) {
    Cache cache(300);
    cache.slots[0] = -1;
    cache.cached[0] = 0;
    const std::vector<float> records = cache.attend(0, 2);
    EXPECT_EQ(records[1], 0) << "the sum of its weights";
    for (const int32_t r : {1, 2}) {
        cache.expect(records, r, "the others");
    }
}

// One row's window ends before the other's begins; a lane has vectors of both.
TEST(AttendSplits, RowsFarApartSeeTheirWindows) {
    Cache cache(700, std::vector<int32_t>(32, 0), 2);
    cache.slots[0] = cache.cached[0] = 50;
    cache.window = 40;
    const std::vector<float> records = cache.attend<gpu::AttendSplit<f16, kDim, 4>>(0, 3);
    for (const int32_t r : {0, 1}) cache.expect(records, r, "far apart");
}

// Queries are scaled into [2^11, 2^12), unless they are far from 1.
TEST(AttendSplits, ScaleQueriesByAPowerOfTwo) {
    using Tile = gpu::SplitTile<f16, kDim, 1>;
    for (int exponent = -126; exponent <= 127; ++exponent) {
        for (const float x : {std::ldexp(1.0f, exponent), std::ldexp(1.999f, exponent)}) {
            const bool far = exponent < -100 || exponent > 100;
            EXPECT_EQ(Tile::spread(x), far ? 1.0f : std::ldexp(1.0f, 11 - exponent)) << x;
        }
    }
}

// head_dim is less than the kernel's: a key is followed by the next slot, which is not written and holds NaN.
TEST(AttendSplits, ReadNothingPastAKey) {
    for (const int32_t tokens : {64, 300}) {
        Cache cache(tokens);
        for (int64_t slot = tokens; slot < kTiles * gpu::kTile; ++slot) {
            f16* key = cache.tiles[static_cast<size_t>(slot / gpu::kTile)].data() + slot % gpu::kTile * kDim;
            std::fill_n(key, kDim, f16(NAN));
            std::fill_n(key + gpu::kTile * kDim, kDim, f16(NAN));
        }
        const std::vector<float> records = cache.attend<gpu::AttendSplit<f16, 96, 1>>(0, 2);
        for (int32_t r = 0; r < kRows; ++r) cache.expect(records, r, std::to_string(tokens) + " tokens");
    }
}

// Staged rows alone need no tile.
TEST(AttendSplits, StagedRowsNeedNoTile) {
    Cache cache(0);
    cache.table[0] = 0;
    const std::vector<float> records = cache.attend(0, 1);
    for (int32_t r = 0; r < kRows; ++r) cache.expect(records, r, "no tile");
}

template <class Kernel>
void expect_cost(DType type, int64_t head_dim) {
    const KvLayout one = {.kv_heads = 1, .head_dim = head_dim, .k_type = type, .v_type = type};
    EXPECT_EQ(attention_products("cuda", one, Kernel::kVectors, 1),
              2 * Kernel::kVectors * Kernel::kParts * Kernel::kDim);
}

TEST(AttendSplits, ComputeWhatThePlanCounts) {
    expect_cost<gpu::AttendSplit<f16, 64, 1>>(DType::kF16, 64);
    expect_cost<gpu::AttendSplit<f16, 96, 2>>(DType::kF16, 80);
    expect_cost<gpu::AttendSplit<bf16, 128, 2>>(DType::kBF16, 128);
    expect_cost<gpu::AttendSplit<bf16, 256, 1>>(DType::kBF16, 256);
}

}  // namespace
}  // namespace trireme::simt
