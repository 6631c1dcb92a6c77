// Parallel regions: every thread runs each region once, in order, and sees what the others wrote.

#include "runtime/cpu/team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/cpu/parallel.h"
#include "runtime/error.h"

namespace trireme {
namespace {

/// A team of GetParam() threads, led by the test's thread.
class TeamOf : public testing::TestWithParam<int> {
  protected:
    TeamOf() { team_.lead(); }
    ~TeamOf() override { Team::current() = nullptr; }
    size_t n() const { return static_cast<size_t>(GetParam()); }

  private:
    Team team_{GetParam()};
};

TEST_P(TeamOf, RunsTheBodyOnceOnEveryThread) {
    EXPECT_EQ(parallel_width(), GetParam());
    std::vector<int> runs(n()), widths(n());
    std::vector<std::thread::id> ids(n());
    parallel([&](int thread, int threads) {
        const auto t = static_cast<size_t>(thread);
        ++runs.at(t);
        widths.at(t) = threads;
        ids.at(t) = std::this_thread::get_id();
    });
    EXPECT_EQ(runs, std::vector<int>(n(), 1));
    EXPECT_EQ(widths, std::vector<int>(n(), GetParam()));
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end());
}

// The numbers are not atomic: a region that begins or ends too early gives a wrong sum, and a race under TSan.
TEST_P(TeamOf, SeesWhatTheRegionBeforeWrote) {
    std::vector<int64_t> at(n(), 1);
    int64_t sum = 0;
    for (int64_t i = 0; i < 5000; ++i) {
        sum += at[static_cast<size_t>(i) % n()];  // single-threaded, between the regions
        parallel([&](int thread, int) { at[static_cast<size_t>(thread)] += thread + sum % 3; });
    }
    int64_t wanted = 0;
    std::vector<int64_t> alone(n(), 1);
    for (int64_t i = 0; i < 5000; ++i) {
        wanted += alone[static_cast<size_t>(i) % n()];
        for (size_t t = 0; t < n(); ++t) alone[t] += static_cast<int64_t>(t) + wanted % 3;
    }
    EXPECT_EQ(sum, wanted);
    EXPECT_EQ(at, alone);
}

TEST_P(TeamOf, WakesThreadsThatHaveGoneToSleep) {
    std::vector<int> runs(n());
    for (int i = 0; i < 20; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than the threads spin
        parallel([&](int thread, int) {
            // The others wait for this thread, here and at the end, until they fall asleep.
            if (thread == i % GetParam()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            parallel_barrier();
            if (thread != i % GetParam()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            ++runs[static_cast<size_t>(thread)];
        });
    }
    EXPECT_EQ(runs, std::vector<int>(n(), 20));
}

// Each thread adds its right neighbour's number to its own: right only if all read before any writes.
TEST_P(TeamOf, MeetsAtTheBarrier) {
    constexpr uint64_t kRounds = 2000;
    std::vector<uint64_t> ring(n()), alone(n());
    for (size_t t = 0; t < n(); ++t) ring[t] = alone[t] = t + 1;
    parallel([&](int thread, int threads) {
        const auto t = static_cast<size_t>(thread);
        for (uint64_t i = 0; i < kRounds; ++i) {
            const uint64_t right = ring[(t + 1) % static_cast<size_t>(threads)];
            parallel_barrier();
            ring[t] += right;
            parallel_barrier();
        }
    });
    for (uint64_t i = 0; i < kRounds; ++i) {
        const std::vector<uint64_t> before = alone;
        for (size_t t = 0; t < n(); ++t) alone[t] += before[(t + 1) % n()];
    }
    EXPECT_EQ(ring, alone);
}

TEST_P(TeamOf, HandsOutEveryItemOnce) {
    for (const int64_t items : {int64_t{0}, int64_t{1}, int64_t{997}}) {
        std::vector<int> taken(static_cast<size_t>(items));
        Handout handout(items, GetParam());
        parallel([&](int thread, int) {
            EXPECT_EQ(handout.first(thread), std::min(int64_t{thread}, items));
            for (int64_t i = handout.first(thread); i < handout.size(); i = handout.next()) {
                ++taken[static_cast<size_t>(i)];
            }
            EXPECT_EQ(handout.next(), items);
        });
        EXPECT_EQ(taken, std::vector<int>(static_cast<size_t>(items), 1));
    }
}

TEST_P(TeamOf, RefusesARegionWithinARegion) {
    std::string refusal;
    parallel([&](int thread, int) {
        if (thread != 0) return;
        try {
            parallel([](int, int) {});
        } catch (const Error& e) {
            refusal = e.what();
        }
    });
    EXPECT_NE(refusal.find("parallel region"), std::string::npos) << refusal;
    int runs = 0;
    parallel([&](int thread, int) {
        if (thread == 0) ++runs;
    });
    EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(Sizes, TeamOf, testing::Values(1, 2, 3, 8));

TEST(Team, EndsWhileItsThreadsSleep) {
    std::atomic<int> runs = 0;
    {
        Team team(3);
        team.lead();
        parallel([&](int, int) { ++runs; });
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    Team::current() = nullptr;
    EXPECT_EQ(runs, 3);
}

// Other programs occupy the cores: one thread arrives milliseconds late at every region.
TEST(Team, WorksAloneForAWhileWhereOthersComeLate) {
    Team team(2);
    team.lead();
    std::atomic<int> slices = 0, ran = 0;
    const auto region = [&] {
        ran = 0;
        parallel([&](int thread, int threads) {
            if (thread > 0 && slices > 0) {
                --slices;
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
            ran += threads == team.size() ? 1 : 1000;
        });
        team.adapt();
        return ran.load();
    };
    EXPECT_EQ(region(), 2);
    for (int round = 0; round < 2; ++round) {
        slices = 1 << 20;
        int regions = 0;
        while (team.size() == 2 && ++regions < 1000) region();
        EXPECT_EQ(team.size(), 1);
        EXPECT_LT(regions, 100);
        slices = 0;
        EXPECT_EQ(parallel_width(), 1);
        EXPECT_EQ(region(), 1);
        parallel([&](int, int) { parallel_barrier(); });
        while (team.size() == 1) region();  // the leader resumes using the team by itself
        EXPECT_EQ(region(), 2);
    }
    EXPECT_EQ(team.most(), 2);
    Team::current() = nullptr;
}

TEST(Team, OfNoThreadsIsABug) {
    EXPECT_THROW(Team(0), Error);
}

TEST(Team, IsNotNeeded) {
    EXPECT_EQ(parallel_width(), 1);
    int runs = 0;
    parallel([&](int thread, int threads) {
        parallel_barrier();
        runs += thread == 0 && threads == 1;
    });
    EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace trireme
