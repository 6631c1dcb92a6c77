// Runs that are started with stdin, stdout or stderr closed, as some services and scripts do.

#include <regex>

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

TEST(ClosedStreams, UnusedStdinMayBeClosed) {
    EXPECT_EQ(in_shell(generate({"-p", "In the beginning"}), "<&-").status, 0);
}

// The error comes before any work and before the first log line.
TEST(ClosedStreams, StdoutIsAnErrorBeforeTheWork) {
    for (const Words& words :
         {generate({"-p", "x"}), Words{"tokenize", "-m", model(), "-p", "x"}, Words{"--version"}, Words{"--help"}}) {
        expect_one_error(in_shell(words, ">&-"), 74, "stdout: is closed");
        expect_one_error(in_shell(words, "<&- >&-"), 74, "stdout: is closed");
        expect_one_error(in_shell(words, "1</dev/null"), 74, "stdout: is closed");
    }
}

TEST(ClosedStreams, StderrMayBeClosed) {
    const Words words = {"tokenize", "-m", model(), "-p", "x"};
    EXPECT_EQ(in_shell(words, "2>&-").out, trireme(words).out);
    EXPECT_EQ(in_shell({"nonsense"}, "2>&-").status, 64);
}

/// The output on a terminal, where stdout and stderr of the program are one stream.
std::string on_terminal(const Words& words) {
    Words argv = {"python3", "-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)", TRIREME_PROGRAM};
    argv.insert(argv.end(), words.begin(), words.end());
    const ProcessResult r = run_process(argv);
    EXPECT_EQ(r.status, 0) << r.out << r.err;
    return r.out;
}

TEST(Terminal, ALineOfTheLogNeverBeginsInsideText) {
    const TempFolder folder;
    const std::regex line("[^\\r\\n]\\[0/1 [0-9.]+s\\]"), colour("\\x1b\\[[0-9;]*[mK]");
    const std::string snapshots =
        on_terminal({"generate", "-m", model(), "-p", "And God said", "-n", "24", "--temp", "0", "-t", "1",
                     "--ignore-eos", "--save-kv", folder / "s.h5", "--checkpoint-every", "5"});
    EXPECT_THAT(snapshots, testing::HasSubstr("snapshot "));
    write_file(folder / "turns.jsonl", "{\"prompt\": \"And God said\"}\n{\"prompt\": \"And he said\"}\n");
    const std::string session = on_terminal(
        {"generate", "-m", model(), "--session", folder / "turns.jsonl", "-n", "6", "--temp", "0", "-t", "1"});
    for (const std::string& with_colours : {snapshots, session}) {
        const std::string shown = std::regex_replace(with_colours, colour, "");
        std::smatch found;
        EXPECT_FALSE(std::regex_search(shown, found, line)) << found.str() << " in:\n" << shown;
    }
}

// The log shows what is measured, the progress, and the expected time.
TEST(Bench, SaysHowLongItWillTake) {
    const ProcessResult r = trireme({"bench", "-m", model(), "-f", data("texts/kjv_12k.txt"), "--prefill", "300", "-n",
                                     "8", "-r", "2", "-t", "1", "--modes", "none,ngram", "-v"});
    EXPECT_EQ(r.status, 0) << r.err;
    for (const char* said : {"4 runs of 8 tokens ", "run 1 of 4: none, text 1, 8 tokens, ", "; about ", " left",
                             "run 4 of 4: ngram, text 1, 8 tokens, "}) {
        EXPECT_THAT(r.err, testing::HasSubstr(said));
    }
}

}  // namespace
}  // namespace trireme::test
