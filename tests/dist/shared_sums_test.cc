/// SharedSums over ranks that are threads of one process, so that TSan can check it.
#include "dist/shared_sums.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/support/near.h"

namespace trireme::test {
namespace {

constexpr size_t kSlotBytes = SharedSums::kSlotBytes;
constexpr int64_t kSlot = kSlotBytes / sizeof(float);

/// `ranks` ranks, each with its own watchdog, as processes have.
class SharedRanks {
  public:
    explicit SharedRanks(int ranks, double timeout_s = 300)
        : ranks_(ranks), memory_(static_cast<std::byte*>(::operator new(bytes(), kPages))) {
        std::memset(memory_.get(), 0, bytes());
        for (int r = 0; r < ranks; ++r) {
            dogs_.push_back(
                std::make_unique<Watchdog>(timeout_s, [this](const char* call, uint64_t, double) { given_up = call; }));
        }
    }

    /// Runs body(sums, rank) on one thread per rank; returns the message that each rank threw.
    std::vector<std::string> run(const std::function<void(SharedSums&, int rank)>& body) {
        std::vector<std::string> thrown(static_cast<size_t>(ranks_));
        std::vector<std::thread> threads;
        for (int r = 0; r < ranks_; ++r) {
            threads.emplace_back([&, r] {
                const auto rank = static_cast<size_t>(r);
                SharedSums sums(memory_.get(), r, ranks_, *dogs_[rank], /*crowded=*/true);
                try {
                    body(sums, r);
                } catch (const Error& e) {
                    EXPECT_EQ(e.code(), Exit::kInternal);
                    thrown[rank] = e.what();
                }
            });
        }
        for (std::thread& t : threads) t.join();
        return thrown;
    }

    std::atomic<const char*> given_up = nullptr;  // the call that a watchdog gave up

  private:
    static constexpr std::align_val_t kPages{4096};
    struct Free {
        void operator()(std::byte* memory) const { ::operator delete(memory, kPages); }
    };
    size_t bytes() const { return static_cast<size_t>(ranks_) * SharedSums::bytes_of_rank(); }

    int ranks_;
    std::unique_ptr<std::byte, Free> memory_;
    std::vector<std::unique_ptr<Watchdog>> dogs_;
};

/// A summand: nearly every addition rounds, so that another order gives other bits.
float given(int rank, int64_t i, int call) {
    return static_cast<float>(i % 1021 + 1) / static_cast<float>(3 + rank * 1000 + call % 7);
}

std::vector<float> vector_of(int rank, int64_t n, int call) {
    std::vector<float> x(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = given(rank, i, call);
    return x;
}

std::vector<float> sum_of(int ranks, int64_t n, int call) {
    std::vector<float> sum = vector_of(0, n, call);
    for (int r = 1; r < ranks; ++r) {
        for (int64_t i = 0; i < n; ++i) sum[static_cast<size_t>(i)] += given(r, i, call);
    }
    return sum;
}

class SharedSumsOf : public testing::TestWithParam<int> {};

// Lengths on both sides of every limit: slices, one slot, several slots. Calls follow without a pause, so that ranks
// run ahead of each other.
TEST_P(SharedSumsOf, AddInRankOrderWhateverTheLength) {
    SharedRanks ranks(GetParam());
    const std::vector<int64_t> lengths = {
        1, 15,        16,   2047,      2048,          2049,           kSlot - 1, kSlot, kSlot + 1, kSlot + 2049,
        3, 2 * kSlot, 2050, 5 * 16384, 3 * kSlot - 5, 3 * kSlot + 17, 4096 + 48, 576};

    const auto thrown = ranks.run([&](SharedSums& sums, int rank) {
        for (int call = 0; call < std::ssize(lengths); ++call) {
            const int64_t n = lengths[static_cast<size_t>(call)];
            std::vector<float> x = vector_of(rank, n, call);
            x.push_back(-7.0f);
            sums.all_reduce(x.data(), n);
            EXPECT_EQ(x.back(), -7.0f);
            x.pop_back();
            EXPECT_TRUE(same_bits<float>(x, sum_of(GetParam(), n, call))) << n << " elements on rank " << rank;
        }
    });

    EXPECT_EQ(thrown, std::vector<std::string>(static_cast<size_t>(GetParam())));
}

TEST_P(SharedSumsOf, GatherInRankOrderWhateverTheLength) {
    SharedRanks ranks(GetParam());
    const auto bytes_of = [](int rank, size_t n) {
        std::string s(n, '\0');
        for (size_t i = 0; i < n; ++i) s[i] = static_cast<char>(i * 7 + i / 256 + static_cast<size_t>(rank) * 31);
        return s;
    };

    const auto thrown = ranks.run([&](SharedSums& sums, int rank) {
        for (const size_t n : {1UL, 63UL, 4096UL, kSlotBytes - 1, kSlotBytes, kSlotBytes + 1, 300001UL}) {
            std::string want;
            for (int r = 0; r < GetParam(); ++r) want += bytes_of(r, n);
            std::string out(want.size(), '\0'), in_place = out;
            const std::string part = bytes_of(rank, n);
            char* own = in_place.data() + static_cast<size_t>(rank) * n;
            part.copy(own, n);
            sums.all_gather(out.data(), part.data(), n);
            sums.all_gather(in_place.data(), own, n);
            EXPECT_TRUE(out == want && in_place == want) << n << " bytes on rank " << rank;
        }
    });

    EXPECT_EQ(thrown, std::vector<std::string>(static_cast<size_t>(GetParam())));
}

// A slot is filled again while the slowest rank may still read the other one.
TEST_P(SharedSumsOf, WaitForTheRankThatIsLate) {
    SharedRanks ranks(GetParam());

    ranks.run([&](SharedSums& sums, int rank) {
        for (int call = 0; call < 100; ++call) {
            if (call % GetParam() == rank) std::this_thread::sleep_for(std::chrono::microseconds(100));
            std::vector<float> x = vector_of(rank, 3000, call);
            sums.all_reduce(x.data(), std::ssize(x));
            EXPECT_TRUE(same_bits<float>(x, sum_of(GetParam(), 3000, call))) << "call " << call;
        }
    });
}

INSTANTIATE_TEST_SUITE_P(, SharedSumsOf, testing::Values(1, 2, 3, 4),
                         [](const auto& p) { return fmt::format("{}Ranks", p.param); });

TEST(SharedSums, LengthsThatDifferAreNoticedByAll) {
    for (const int64_t longer : {int64_t{8}, 2 * kSlot}) {
        SharedRanks ranks(3);

        const auto thrown = ranks.run([&](SharedSums& sums, int rank) {
            std::vector<float> x(static_cast<size_t>(longer));
            sums.all_reduce(x.data(), rank == 1 ? 7 : longer);
        });

        for (size_t r = 0; r < 3; ++r) {
            const std::string say =
                r == 1 ? fmt::format("all_reduce: rank 2 sent {} bytes, rank 1 expected 28", longer * 4)
                       : fmt::format("all_reduce: rank 1 sent 28 bytes, rank {} expected {}", r, longer * 4);
            EXPECT_NE(thrown[r].find(say), std::string::npos) << thrown[r];
        }
    }
}

TEST(SharedSums, AWaitIsUnderWatch) {
    SharedRanks ranks(2, /*timeout_s=*/0.05);

    const auto thrown = ranks.run([&](SharedSums& sums, int rank) {
        if (rank == 1) {
            while (ranks.given_up == nullptr) std::this_thread::yield();
        }
        std::vector<float> x(576, 1.0f);
        sums.all_reduce(x.data(), std::ssize(x));
    });

    EXPECT_STREQ(ranks.given_up, "all_reduce");
    EXPECT_EQ(thrown, std::vector<std::string>(2));
}

}  // namespace
}  // namespace trireme::test
