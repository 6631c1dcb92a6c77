// The all-reduce in host memory, with ranks as threads of the host.

#include "dist/cuda/mailbox_sum.h"

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "dist/ordered_sum.h"
#include "tests/simt/block.h"

namespace trireme::test {
namespace {

/// Ranks with mailboxes of their own, whose counters of calls begin at `call`.
struct Group {
    explicit Group(int ranks, uint32_t call = 0)
        : size(ranks),
          boxes(new gpu::Mailbox[static_cast<size_t>(ranks)]()),
          calls(static_cast<size_t>(ranks), std::vector<uint32_t>(gpu::Mailbox::kBlocks, call)) {
        for (int r = 0; r < ranks; ++r) {
            for (auto& word : boxes[static_cast<size_t>(r)].calls) word.value = call;
        }
    }
    /// Runs the blocks of a rank's kernel, one after another. The last `rest` elements are not part of the row.
    void add(int rank, std::vector<float>& x, size_t rest = 0) {
        const gpu::MailboxSum::Args args = {x.data(),    static_cast<int64_t>(x.size() - rest),
                                            boxes.get(), calls[static_cast<size_t>(rank)].data(),
                                            size,        rank};
        simt::Block block;
        for (int64_t b = 0; b < gpu::div_up(args.n, gpu::Mailbox::kFloats); ++b) {
            block.run({static_cast<int>(b), 0, 0}, gpu::MailboxSum::kThreads, 0,
                      [&](simt::Gpu& gpu) { gpu::MailboxSum::run(gpu, args); });
        }
    }

    int size;
    std::unique_ptr<gpu::Mailbox[]> boxes;
    std::vector<std::vector<uint32_t>> calls;
};

/// Vectors of ranks and calls, whose sums depend on the order of adding.
std::vector<float> part(int rank, int call, int64_t n) {
    std::vector<float> x;
    auto state = static_cast<uint32_t>(rank * 1000 + call + 1);
    for (int64_t i = 0; i < n; ++i) {
        state = state * 1664525 + 1013904223;
        x.push_back(static_cast<float>(static_cast<int32_t>(state)) * static_cast<float>(1 << (state >> 28)));
    }
    return x;
}

// Calls of different lengths, one after another, without a step between them: ranks may be one call apart. The counters
// pass 2^32.
TEST(MailboxSum, HasTheBitsOfTheOrderedSumInEveryCall) {
    const std::vector<int64_t> lengths = {1, 1000, 1024, 1025, 1, 4097, 3000, 1, 1, 2048, 255, 1024};
    for (const int ranks : {2, 3, 5}) {
        Group group(ranks, 0xfffffffa);
        std::vector<std::vector<std::vector<float>>> results(static_cast<size_t>(ranks));
        std::vector<std::thread> threads;
        for (int rank = 0; rank < ranks; ++rank) {
            threads.emplace_back([&, rank] {
                for (size_t call = 0; call < lengths.size(); ++call) {
                    std::vector<float> x = part(rank, static_cast<int>(call), lengths[call]);
                    group.add(rank, x);
                    results[static_cast<size_t>(rank)].push_back(std::move(x));
                }
            });
        }
        for (std::thread& t : threads) t.join();
        for (size_t call = 0; call < lengths.size(); ++call) {
            std::vector<std::vector<float>> parts;
            for (int r = 0; r < ranks; ++r) parts.push_back(part(r, static_cast<int>(call), lengths[call]));
            std::vector<float> want(parts[0].size());
            ordered_sum(want.data(), ranks, lengths[call], [&](int r) { return parts[static_cast<size_t>(r)].data(); });
            for (int r = 0; r < ranks; ++r) {
                EXPECT_EQ(results[static_cast<size_t>(r)][call], want)
                    << ranks << " ranks, call " << call << ", rank " << r;
            }
        }
    }
}

// What follows a row, and its part in the mailbox, stays as it is.
TEST(MailboxSum, EndsWithTheRow) {
    constexpr size_t kRow = 1300;
    Group alone(1);
    std::vector<float> x(kRow + 1, 5);
    x.back() = 7;
    alone.add(0, x, 1);
    EXPECT_EQ(x[kRow - 1], 5);
    EXPECT_EQ(x[kRow], 7);
    EXPECT_EQ(alone.boxes[0].parts[1][kRow - 1], 5);
    EXPECT_EQ(alone.boxes[0].parts[1][kRow], 0);
}

// A rank may have written the part of its next call before another one reads the part of this call.
TEST(MailboxSum, KeepsAPartUntilAllHaveReadIt) {
    for (const uint32_t call : {1U, 2U}) {
        Group group(2, call);
        gpu::Mailbox& ahead = group.boxes[1];
        std::vector<float> x = part(0, 0, 700);
        const std::vector<float> now = part(1, 0, 700), next = part(1, 1, 700);
        std::copy(now.begin(), now.end(), ahead.parts[(call + 1) % 2]);
        std::copy(next.begin(), next.end(), ahead.parts[(call + 2) % 2]);
        ahead.calls[0].value = call + 2;
        std::vector<float> want = x;
        for (size_t i = 0; i < want.size(); ++i) want[i] += now[i];

        group.add(0, x);

        EXPECT_EQ(x, want) << "call " << call + 1;
        EXPECT_EQ(group.boxes[0].calls[0].value, call + 1);
    }
}

// A rank whose peer does not come waits until its `stop` is set.
TEST(MailboxSum, EndsWhenStopIsSet) {
    Group group(2);
    std::vector<float> x(1500, 1.0F);
    std::atomic<bool> ended{false};
    std::thread alone([&] {
        group.add(0, x);
        ended = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(ended);
    std::atomic_ref(group.boxes[0].stop.value).store(1);
    alone.join();
    EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace trireme::test
