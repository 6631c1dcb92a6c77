/// One rank fails: all ranks end within seconds, with an exit code that says why.
#include <chrono>
#include <csignal>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

struct Outcome {
    int code = -1;
    std::string output;
    std::vector<pid_t> ranks;
};

/// `deadline_s`: TRIREME_TIMEOUT_S, long enough for MPI to start on a busy machine. Device calls go through shared
/// memory, or through messages if `messages`.
Outcome run(const std::string& how, int deadline_s = 60, bool messages = false) {
    // The command has a deadline of its own, longer than those under test: `timeout` exits with 124.
    const ProcessResult r = run_mpirun({"bash", "-c", TRIREME_FAILING_RANKS " " + how},
                                       {.environment = {"TRIREME_TIMEOUT_S=" + std::to_string(deadline_s),
                                                        messages ? "TRIREME_SHM_SUMS=0" : "TRIREME_SHM_SUMS=1"}});
    Outcome o{r.status, r.out + r.err, {}};

    std::istringstream words(o.output);
    for (std::string word; words >> word;) {
        if (word != "pid") continue;
        o.ranks.emplace_back();
        words >> o.ranks.back();
    }
    return o;
}

/// True if all three ranks started and none is left.
testing::AssertionResult gone(const Outcome& o) {
    if (o.ranks.size() != 3) return testing::AssertionFailure() << o.ranks.size() << " ranks started:\n" << o.output;
    for (const pid_t pid : o.ranks) {
        for (int tries = 0; kill(pid, 0) == 0; ++tries) {  // a killed rank takes a moment to be reaped
            if (tries == 100) return testing::AssertionFailure() << "pid " << pid << " lives on:\n" << o.output;
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
    }
    return testing::AssertionSuccess();
}

bool says(const Outcome& o, const std::string& text) {
    return o.output.find(text) != std::string::npos;
}

TEST(MpiFailure, NoneIsNone) {
    const Outcome o = run("none");

    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(gone(o));
}

TEST(MpiFailure, ARankThatStartsLateIsWaitedFor) {
    const Outcome o = run("late", 6);

    EXPECT_EQ(o.code, 0) << o.output;
    EXPECT_TRUE(gone(o));
}

TEST(MpiFailure, ARankThatAbortsEndsAllWithItsCode) {
    const Outcome o = run("throw");

    EXPECT_EQ(o.code, static_cast<int>(Exit::kData)) << o.output;
    EXPECT_TRUE(says(o, "rank 1: this rank's file is broken")) << o.output;
    EXPECT_TRUE(gone(o));
}

TEST(MpiFailure, AnExceptionThatPassesTheCommIsAnAbortToo) {
    const Outcome o = run("unwind");

    EXPECT_EQ(o.code, static_cast<int>(Exit::kInternal)) << o.output;
    EXPECT_TRUE(gone(o));
}

TEST(MpiFailure, AKilledRankEndsAll) {
    for (const bool messages : {false, true}) {
        const Outcome o = run("kill", /*deadline_s=*/60, messages);

        EXPECT_EQ(o.code, 128 + SIGKILL) << o.output;
        EXPECT_TRUE(gone(o));
    }
}

TEST(MpiFailure, ARankThatJustLeavesEndsAll) {
    const Outcome o = run("leave");

    EXPECT_NE(o.code, 0) << o.output;
    EXPECT_NE(o.code, 124) << o.output;
    EXPECT_TRUE(gone(o));
}

TEST(MpiFailure, AStoppedRankIsGivenUpInACollective) {
    for (const bool messages : {false, true}) {
        const Outcome o = run("stop", 6, messages);

        EXPECT_EQ(o.code, static_cast<int>(Exit::kUnavailable)) << o.output;
        EXPECT_TRUE(says(o, "trireme: error: rank ") && says(o, ": all_reduce (number ") &&
                    says(o, ") has waited 6 s for its peers"))
            << o.output;
        EXPECT_TRUE(gone(o));
    }
}

TEST(MpiFailure, AStoppedRankIsGivenUpInAControlCall) {
    const Outcome o = run("stop-control", 6);

    EXPECT_EQ(o.code, static_cast<int>(Exit::kUnavailable)) << o.output;
    EXPECT_TRUE(says(o, ": a control call (number ") && says(o, ") has waited 6 s for its peers")) << o.output;
    EXPECT_TRUE(gone(o));
}

TEST(MpiFailure, ASlowRankIsGivenUp) {
    const Outcome o = run("slow", 6);

    EXPECT_EQ(o.code, static_cast<int>(Exit::kUnavailable)) << o.output;
    EXPECT_TRUE(gone(o));
}

TEST(MpiFailure, LengthsThatDifferEndAll) {
    const Outcome o = run("lengths");

    EXPECT_EQ(o.code, static_cast<int>(Exit::kInternal)) << o.output;
    EXPECT_TRUE(says(o, "all_reduce: rank 1 sent 28 bytes, rank ")) << o.output;
    EXPECT_TRUE(gone(o));

    const Outcome by_messages = run("lengths", /*deadline_s=*/60, /*messages=*/true);

    EXPECT_TRUE(by_messages.code == static_cast<int>(Exit::kInternal) ||
                by_messages.code == static_cast<int>(Exit::kUnavailable))
        << by_messages.code << "\n"
        << by_messages.output;
    EXPECT_TRUE(gone(by_messages));
}

TEST(MpiFailure, SettingsThatDifferEndAllInOneLine) {
    const Outcome o = run("settings");

    EXPECT_EQ(o.code, static_cast<int>(Exit::kConfig)) << o.output;
    const size_t at = o.output.find("rank 1 differs: context=8192 (others 32768)");
    EXPECT_NE(at, std::string::npos) << o.output;
    EXPECT_EQ(o.output.find("rank 1 differs", at + 1), std::string::npos) << "said once:\n" << o.output;
    EXPECT_TRUE(gone(o));
}

TEST(MpiFailure, AnotherMpisLauncherIsNoticed) {
    const Outcome o = run("miscounted");

    EXPECT_EQ(o.code, static_cast<int>(Exit::kUnavailable)) << o.output;
    EXPECT_TRUE(says(o, "the launcher started 5 ranks, MPI sees 3")) << o.output;
}

}  // namespace
}  // namespace trireme::test
