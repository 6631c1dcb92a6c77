// What a run does when it was started with stdin, stdout or stderr closed, as some services and scripts do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;

/// `trireme WORDS REDIRECTION`, as a shell runs it.
ProcessResult in_shell(const Words& words, const std::string& redirection) {
    std::string line = "'" TRIREME_PROGRAM "'";
    for (const std::string& word : words) line += " '" + word + "'";
    return run_process({"bash", "-c", line + " " + redirection});
}

Words generate(const Words& prompt) {
    Words words = {"generate", "-m", model(), "-n", "2", "-t", "1"};
    words.insert(words.end(), prompt.begin(), prompt.end());
    return words;
}

void expect_one_error(const ProcessResult& r, int status, const std::string& message) {
    EXPECT_EQ(r.status, status);
    EXPECT_THAT(lines_of(r.err), SizeIs(1)) << r.err;
    EXPECT_THAT(r.err, StartsWith("trireme: error: " + message));
    EXPECT_EQ(r.out, "");
}

TEST(ClosedStreams, StdinIsNotReadFromWhateverFileIsOpenedFirst) {
    for (const Words& words :
         {generate({"-f", "-"}), generate({"--prompt-ids", "-"}), Words{"tokenize", "-m", model(), "-f", "-"}}) {
        expect_one_error(in_shell(words, "<&-"), 74, "stdin: is closed");
    }
}

TEST(ClosedStreams, StdinThatNobodyReadsMayBeClosed) {
    EXPECT_EQ(in_shell(generate({"-p", "In the beginning"}), "<&-").status, 0);
}

// Before any work: the log has not begun.
TEST(ClosedStreams, StdoutIsAnErrorBeforeTheWork) {
    for (const Words& words :
         {generate({"-p", "x"}), Words{"tokenize", "-m", model(), "-p", "x"}, Words{"--version"}, Words{"--help"}}) {
        expect_one_error(in_shell(words, ">&-"), 74, "stdout: is closed");
        expect_one_error(in_shell(words, "<&- >&-"), 74, "stdout: is closed");
        expect_one_error(in_shell(words, "1</dev/null"), 74, "stdout: is closed, or not open for writing");
    }
}

TEST(ClosedStreams, StderrMayBeClosed) {
    const Words words = {"tokenize", "-m", model(), "-p", "x"};
    EXPECT_EQ(in_shell(words, "2>&-").out, trireme(words).out);
    EXPECT_EQ(in_shell({"nonsense"}, "2>&-").status, 64);
}

}  // namespace
}  // namespace trireme::test
