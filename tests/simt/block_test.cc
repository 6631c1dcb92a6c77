// Checks that the emulated block, on which the GPU kernels are tested, notices the errors that it is made for.

#include "tests/simt/block.h"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/simt/launcher.h"

namespace trireme::simt {
namespace {

constexpr int kThreads = 64;

/// Returns how many threads of blocks 0 and 1 read another value than their neighbour's number.
int misread(bool with_barrier) {
    Block block;
    int wrong = 0;
    for (int x = 0; x < 2; ++x) {
        block.run({x, 0, 0}, kThreads, kThreads * sizeof(float), [&](Gpu& gpu) {
            auto* shared = static_cast<float*>(gpu.shared());
            shared[gpu.thread()] = static_cast<float>(gpu.thread());
            if (with_barrier) gpu.sync();
            const int neighbour = (gpu.thread() + 1) % kThreads;
            if (shared[neighbour] != static_cast<float>(neighbour)) ++wrong;
        });
    }
    return wrong;
}

TEST(SimtBlock, ShowsAMissingBarrier) {
    EXPECT_EQ(misread(true), 0);
    EXPECT_GT(misread(false), 0);
}

// A barrier is also needed after a read: without it, another warp may already write what this warp reads.
TEST(SimtBlock, ShowsAMissingBarrierAfterAReading) {
    const auto misread_twice = [](bool with_barrier) {
        Block block;
        int wrong = 0;
        for (int turn = 0; turn < 4; ++turn) {
            block.run({turn, 0, 0}, kThreads, 2 * sizeof(float), [&](Gpu& gpu) {
                auto* shared = static_cast<float*>(gpu.shared());
                for (int round = 0; round < 3; ++round) {
                    float mine = static_cast<float>(gpu.thread() / 32 + round);
                    for (int mask = 16; mask > 0; mask /= 2) mine = std::fmax(mine, gpu.shuffle_xor(mine, mask));
                    if (gpu.thread() % 32 == 0) shared[gpu.thread() / 32] = mine;
                    gpu.sync();
                    if (shared[0] + shared[1] != static_cast<float>(2 * round + 1)) ++wrong;
                    if (with_barrier) gpu.sync();
                }
            });
        }
        return wrong;
    };
    EXPECT_EQ(misread_twice(true), 0);
    EXPECT_GT(misread_twice(false), 0);
}

// In one run of four, the thread that writes results is the last one after every barrier.
TEST(SimtBlock, LetsTheFirstThreadBeTheLast) {
    Block block;
    int most = 0;
    for (int turn = 0; turn < 4; ++turn) {
        block.run({turn, 0, 0}, 128, 4 * sizeof(float), [&](Gpu& gpu) {
            auto* shared = static_cast<float*>(gpu.shared());
            for (int round = 0; round < 3; ++round) {
                if (gpu.thread() % 32 == 0) shared[gpu.thread() / 32] = static_cast<float>(round);
                gpu.sync();
                int overwritten = 0;
                for (int warp = 0; warp < 4; ++warp) overwritten += shared[warp] != static_cast<float>(round);
                if (gpu.thread() == 0) most = std::max(most, overwritten);
            }
        });
    }
    EXPECT_EQ(most, 3);
}

TEST(SimtBlock, RunsHalfOfTheBlocksBackwards) {
    Block block;
    std::vector<int> order[2];
    for (int x = 0; x < 2; ++x) {
        block.run({x, 3, 1}, 3, 0, [&](Gpu& gpu) { order[x].push_back(gpu.thread()); });
    }
    EXPECT_EQ(order[0], (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(order[1], (std::vector<int>{2, 1, 0}));
}

TEST(SimtBlock, EndsWhenThreadsWaitForOnesThatLeft) {
    Block block;
    const auto half_leave = [](Gpu& gpu) {
        if (gpu.thread() % 2 == 0) gpu.sync();
    };
    EXPECT_THROW(block.run({0, 0, 0}, kThreads, 0, half_leave), Error);

    int ran = 0;  // the block works as before
    block.run({0, 0, 0}, kThreads, 0, [&](Gpu& gpu) {
        gpu.sync();
        ++ran;
    });
    EXPECT_EQ(ran, kThreads);
}

TEST(SimtBlock, RefusesLanesInDifferentOperations) {
    Block block;
    EXPECT_THROW(block.run({0, 0, 0}, 32, 0, [](Gpu& gpu) { gpu.shuffle_xor(1.0f, gpu.thread() < 16 ? 1 : 2); }),
                 Error);
}

TEST(SimtBlock, RefusesLoadsOf16BytesThatAreNotAligned) {
    Block block;
    alignas(16) const std::array<char, 64> bytes{};
    const auto load_at = [&](size_t i) {
        block.run({0, 0, 0}, 1, 0, [&](Gpu& gpu) {
            gpu.load16(bytes.data() + i);
            gpu.stream16(bytes.data() + i);
        });
    };
    EXPECT_NO_THROW(load_at(16));
    for (const size_t i : {1U, 4U, 8U}) EXPECT_THROW(load_at(i), Error);
}

TEST(SimtBlock, ShufflesWithinTheWarp) {
    Block block;
    for (const int mask : {1, 8, 31}) {
        block.run({0, 0, 0}, kThreads, 0, [&](Gpu& gpu) {
            const int got = gpu.shuffle_xor(gpu.thread(), mask);
            EXPECT_EQ(got, gpu.thread() / 32 * 32 + ((gpu.thread() % 32) ^ mask));
        });
    }
}

TEST(SimtBlockDeathTest, EndsAtAnAccessPastSharedMemory) {
    const auto write_at = [](size_t i) {
        Block block;
        block.run({0, 0, 0}, 1, 48, [&](Gpu& gpu) { static_cast<volatile char*>(gpu.shared())[i] = 1; });
    };
    write_at(47);
    EXPECT_DEATH(write_at(48), "");
}

/// Block x writes its own cell, then zeroes that of block x + step.
struct Meddler {
    static constexpr int kThreads = 1;
    struct Args {
        int* cells;
        int n, step;
    };
    static void run(Gpu& gpu, const Args& a) {
        const int x = gpu.block_x(), other = x + a.step;
        a.cells[x] = 1;
        if (other >= 0 && other < a.n) a.cells[other] = 0;
    }
};

TEST(SimtLauncher, ShowsBlocksThatBuildOnOneAnother) {
    CpuStream stream("test", 1);
    Launcher launcher(stream);
    for (const int n : {4, 5, 8, 30, 97}) {
        for (const int step : {-1, 1}) {
            std::vector<int> cells(static_cast<size_t>(n), -1);
            launcher.launch<Meddler>("meddle", 0, {.x = n, .y = 1, .z = 1}, {cells.data(), n, step});
            stream.synchronize();
            const auto zeros = std::ranges::count(cells, 0), ones = std::ranges::count(cells, 1);
            EXPECT_GT(zeros, 0) << n << " " << step;
            EXPECT_EQ(zeros + ones, n);  // every block has run
        }
    }
}

TEST(SimtBlock, KeepsTheFirstFault) {
    Block block;
    block.run({0, 0, 0}, 4, 0, [](Gpu& gpu) {
        if (gpu.thread() > 0) gpu.fault(gpu::Fault::kTile, gpu.thread(), 7);
    });
    EXPECT_EQ(block.fault.kind, gpu::Fault::kTile);
    EXPECT_EQ(block.fault.x, 1);
}

// PTX ISA 8.x, "Matrix fragments for mma.m16n8k16 with .f16 and .bf16", figures of A, B and C: row and column of
// register r, half h, of a lane, as the figures' captions compute them.
template <class T>
void multiply_one_tile() {
    float a[16][16], b[16][8], d[16][8];
    for (int i = 0; i < 16; ++i) {
        for (int k = 0; k < 16; ++k) a[i][k] = static_cast<float>((i * 37 + k * 11) % 29 - 14);
        for (int n = 0; n < 8; ++n) b[i][n] = static_cast<float>((i * 13 + n * 5) % 23 - 11) / 4;
    }
    Block block;
    block.run({0, 0, 0}, 32, 0, [&](Gpu& gpu) {
        const int group = gpu.thread() >> 2, in_group = gpu.thread() % 4;
        const auto pack = [](float low, float high) {
            return static_cast<uint32_t>(T(low).bits) | static_cast<uint32_t>(T(high).bits) << 16;
        };
        uint32_t left[4], right[2];
        for (int r = 0; r < 4; ++r) {
            const int row = r == 0 || r == 2 ? group : group + 8, column = in_group * 2 + (r < 2 ? 0 : 8);
            left[r] = pack(a[row][column], a[row][column + 1]);
        }
        for (int r = 0; r < 2; ++r) {
            const int row = in_group * 2 + (r == 0 ? 0 : 8);
            right[r] = pack(b[row][group], b[row + 1][group]);
        }
        float sum[4] = {1, 2, 3, 4};
        gpu.mma<T>(sum, left, right);
        for (int r = 0; r < 4; ++r)
            d[r < 2 ? group : group + 8][in_group * 2 + r % 2] = sum[r] - static_cast<float>(r + 1);
    });
    for (int i = 0; i < 16; ++i) {
        for (int n = 0; n < 8; ++n) {
            float want = 0;  // small integers over 4: exact
            for (int k = 0; k < 16; ++k) want += a[i][k] * b[k][n];
            EXPECT_EQ(d[i][n], want) << i << " " << n;
        }
    }
}

TEST(SimtBlock, MultipliesTilesAsThePtxIsaLaysThemOut) {
    multiply_one_tile<f16>();
    multiply_one_tile<bf16>();
}

// PTX ISA, ldmatrix: thread l names row l % 8 of matrix l / 8; register i of thread l has elements 2(l % 4) and the
// next of row l / 4 of matrix i, or of its transpose.
TEST(SimtBlock, LoadsMatricesAsThePtxIsaLaysThemOut) {
    alignas(16) std::array<uint16_t, 4 * 8 * 8> matrices;  // [matrix][row][column]
    for (size_t i = 0; i < matrices.size(); ++i) matrices[i] = static_cast<uint16_t>(i);
    Block block;
    block.run({0, 0, 0}, 32, 0, [&](Gpu& gpu) {
        const uint16_t* row = matrices.data() + gpu.thread() * 8;
        const gpu::Bits16 plain = gpu.load_matrices<false>(row), transposed = gpu.load_matrices<true>(row);
        for (int matrix = 0; matrix < 4; ++matrix) {
            for (int half = 0; half < 2; ++half) {
                const int at = gpu.thread() % 4 * 2 + half, other = gpu.thread() / 4;
                EXPECT_EQ(uint16_t(plain.word[matrix] >> (16 * half)), matrix * 64 + other * 8 + at);
                EXPECT_EQ(uint16_t(transposed.word[matrix] >> (16 * half)), matrix * 64 + at * 8 + other);
            }
        }
    });
}

/// Copies four words in two groups, and reads them when all groups but `left` have been waited for.
template <int kLeft>
std::array<uint32_t, 2> copied() {
    alignas(16) const std::array<gpu::Bits16, 2> from = {{{1, 2, 3, 4}, {5, 6, 7, 8}}};
    std::array<uint32_t, 2> seen{};
    Block block;
    block.run({0, 0, 0}, 1, 32, [&](Gpu& gpu) {
        auto* to = static_cast<gpu::Bits16*>(gpu.shared());
        to[0] = to[1] = {};
        for (int i = 0; i < 2; ++i) {
            gpu.copy_async(to + i, &from[static_cast<size_t>(i)], true);
            gpu.end_copies();
        }
        gpu.wait_copies<kLeft>();
        seen = {to[0].word[3], to[1].word[0]};
    });
    return seen;
}

TEST(SimtBlock, CopiesArriveWhenTheyAreWaitedForAndAreNanBefore) {
    constexpr uint32_t kNan = 0xffffffff;
    EXPECT_EQ(copied<0>(), (std::array<uint32_t, 2>{4, 5}));
    EXPECT_EQ(copied<1>(), (std::array<uint32_t, 2>{4, kNan}));
    EXPECT_EQ(copied<2>(), (std::array<uint32_t, 2>{kNan, kNan}));
}

TEST(SimtBlock, CopiesOfNothingAreZeros) {
    Block block;
    block.run({0, 0, 0}, 1, 16, [](Gpu& gpu) {
        alignas(16) const gpu::Bits16 from = {1, 2, 3, 4};
        auto* to = static_cast<gpu::Bits16*>(gpu.shared());
        gpu.copy_async(to, &from, false);
        gpu.end_copies();
        gpu.wait_copies<0>();
        for (const uint32_t word : to->word) EXPECT_EQ(word, 0U);
    });
}

TEST(SimtBlock, RefusesCopiesThatAreNotAligned) {
    Block block;
    alignas(16) static const std::array<char, 32> bytes{};
    EXPECT_THROW(block.run({0, 0, 0}, 1, 32, [&](Gpu& gpu) { gpu.copy_async(gpu.shared(), bytes.data() + 8, true); }),
                 Error);
    EXPECT_THROW(block.run({0, 0, 0}, 1, 32,
                           [&](Gpu& gpu) { gpu.copy_async(static_cast<char*>(gpu.shared()) + 4, bytes.data(), true); }),
                 Error);
}

}  // namespace
}  // namespace trireme::simt
