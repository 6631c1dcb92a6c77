#include "launch/run/rank_group.h"

#include <chrono>
#include <new>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/run/outcome.h"
#include "tests/support/ranks.h"

namespace trireme::test {
namespace {

TEST(Attempt, TurnsEveryExceptionIntoAnOutcome) {
    const auto status = [](const std::function<void()>& work) { return attempt(work).status; };

    EXPECT_EQ(status([] {}), 0);
    EXPECT_EQ(status([] { fail(Exit::kData, "x"); }), 65);
    EXPECT_EQ(status([] { throw std::bad_alloc(); }), 71);
    EXPECT_EQ(status([] { throw std::runtime_error("x"); }), 70);
    EXPECT_EQ(status([] { throw Stopped{143}; }), 143);
    EXPECT_TRUE(attempt([] { throw AgreedError(Exit::kConfig, "x"); }).agreed);
    EXPECT_TRUE(attempt([] { throw Stopped{0}; }).agreed);
    EXPECT_FALSE(attempt([] { fail(Exit::kData, "x"); }).agreed);
    EXPECT_EQ(attempt([] { fail(Exit::kData, "{} {}", "a", 1); }).message, "a 1");
}

// Outcome on each of three ranks of a phase in which rank r ends with codes[r].
std::vector<std::string> after_phase(const std::vector<Exit>& codes, const std::string& text) {
    std::vector<std::string> said(codes.size());
    run_ranks(static_cast<int>(codes.size()), [&](Comm& comm) {
        const auto me = static_cast<size_t>(comm.rank());
        const Outcome o = attempt([&] {
            RankGroup(comm).phase([&] {
                if (codes[me] != Exit::kOk) fail(codes[me], "{}", fmt::format(fmt::runtime(text), me));
            });
        });
        EXPECT_EQ(o.agreed, o.status != 0);
        said[me] = fmt::format("{} {}", o.status, o.message);
    });
    return said;
}

TEST(RankGroup, PassesTogether) {
    EXPECT_THAT(after_phase({Exit::kOk, Exit::kOk, Exit::kOk}, "x"), testing::Each("0 "));
}

TEST(RankGroup, LeavesTogetherWithTheWorstOfTheLowestRank) {
    EXPECT_THAT(after_phase({Exit::kOk, Exit::kData, Exit::kOk}, "bad {}"), testing::Each("65 rank 1: bad 1"));
    EXPECT_THAT(after_phase({Exit::kData, Exit::kIo, Exit::kIo}, "bad {}"), testing::Each("74 rank 1: bad 1"));
    EXPECT_THAT(after_phase({Exit::kOs, Exit::kOk, Exit::kOs}, "bad {}"), testing::Each("71 bad 0"));
    EXPECT_THAT(after_phase({Exit::kData, Exit::kData, Exit::kData}, "bad"), testing::Each("65 bad"));
}

TEST(RankGroup, LetsRankZeroWorkAlone) {
    run_ranks(3, [](Comm& comm) {
        bool worked = false;
        RankGroup(comm).first_only([&] { worked = true; });
        EXPECT_EQ(worked, comm.rank() == 0);
    });
}

TEST(RankGroup, LetsRankZeroWaitForTheOutside) {
    run_ranks(3, [](Comm& comm) {
        bool worked = false;
        RankGroup(comm).first_only_waiting([&](const StillWaiting& waiting) {
            const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1200);
            while (std::chrono::steady_clock::now() < end) waiting();
            worked = true;
        });
        EXPECT_EQ(worked, comm.rank() == 0);
        const Outcome failed = attempt(
            [&] { RankGroup(comm).first_only_waiting([](const StillWaiting&) { fail(Exit::kNoInput, "no text"); }); });
        EXPECT_EQ(failed.status, 66);
        EXPECT_EQ(failed.message, "no text");
        EXPECT_TRUE(failed.agreed);
    });
}

}  // namespace
}  // namespace trireme::test
