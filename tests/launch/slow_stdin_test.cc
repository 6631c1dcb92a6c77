// A prompt that arrives slowly, from a pipe or a person: rank 0 reads it, and the others wait for rank 0.

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kTimeout = "TRIREME_TIMEOUT_S=3";

/// Two ranks that read their prompt from `writer`, a line of bash. $RANKS_FOLDER/0 and 1 receive their process ids.
ProcessResult two_ranks(const std::string& writer, const Words& words, const TempFolder& folder,
                        ProcessOptions options = {}) {
    std::string program = "echo $$ > '" + folder.path() + "'/$OMPI_COMM_WORLD_RANK; exec '" TRIREME_PROGRAM "'";
    for (const std::string& word : words) program += " '" + word + "'";
    write_file(folder / "program", program);
    options.environment = {kTimeout};
    return run_mpirun({"bash", "-c",
                       "'" TRIREME_MPIEXEC "' --allow-run-as-root --oversubscribe -n 2 bash '" + (folder / "program") +
                           "' < <(exec 2>/dev/null; " + writer + ")"},
                      options);
}

TEST(SlowStdin, IsWaitedForLongerThanForAPeer) {
    const TempFolder folder;
    const std::string slow_start = "sleep 5; printf 'In the beginning'";
    const std::string drop_by_drop = "for part in In ' the' ' begin' ning; do printf \"$part\"; sleep 1; done";
    for (const auto& [words, writer] :
         {std::pair<Words, std::string>{{"generate", "-m", model(), "-f", "-", "-n", "4", "-t", "1"}, slow_start},
          {{"tokenize", "-m", model(), "-f", "-"}, drop_by_drop}}) {
        const ProcessResult at_once = two_ranks("printf 'In the beginning'", words, folder);
        ASSERT_EQ(at_once.status, 0) << at_once.err;

        const ProcessResult slow = two_ranks(writer, words, folder);

        EXPECT_EQ(slow.status, 0) << slow.err;
        EXPECT_EQ(slow.out, at_once.out);
    }
}

TEST(SlowStdin, ADeadRankIsNoticedMeanwhile) {
    const TempFolder folder;
    const ProcessResult r = two_ranks("exec sleep 60", {"generate", "-m", model(), "-f", "-", "-lv", "debug"}, folder,
                                      {.timeout_s = 40,
                                       .signal_at_output = SIGSTOP,
                                       .signal_at_error = "reads the prompt from stdin",
                                       .signal_to = folder / "1"});
    EXPECT_EQ(r.status, 69) << r.err;
    EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("waited 3 s for")));
}

}  // namespace
}  // namespace trireme::test
