/// A crash of mpirun itself is distinguished from a crash of its ranks (tests/support/process.h).
#include "tests/support/process.h"

#include <csignal>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

/// Runs a command that counts its runs in `folder`. All but the `good`th run print `last` and end with a segmentation
/// fault.
ProcessResult crash_until(int good, const std::string& last, const TempFolder& folder) {
    const std::string runs = folder / "runs";
    return run_mpirun({"bash", "-c",
                       "echo x >> " + runs + "; [ $(wc -l < " + runs + ") = " + std::to_string(good) +
                           " ] && exit 69; echo '" + last + "' >&2; kill -SEGV $$"});
}

TEST(RunMpirun, RunsAgainWhenMpirunCrashedAsItLeft) {
    const TempFolder folder;
    EXPECT_EQ(crash_until(3, "libpmix.so.2(PMIx_server_finalize+0xb08)", folder).status, 69);
}

TEST(RunMpirun, GivesUpAfterThreeCrashes) {
    const TempFolder folder;
    EXPECT_EQ(crash_until(4, "libpmix.so.2(PMIx_server_finalize+0xb08)", folder).status, 128 + SIGSEGV);
}

TEST(RunMpirun, LeavesOtherCrashesAsTheyAre) {
    const TempFolder folder;
    EXPECT_EQ(crash_until(2, "Segmentation fault in a rank", folder).status, 128 + SIGSEGV);
}

}  // namespace
}  // namespace trireme::test
