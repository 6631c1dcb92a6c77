// The output of `trireme batch`: what ends a run costs no line and doubles none.

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/batch_files.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<Json> uninterrupted(const std::vector<Json>& all) {
    const BatchFiles files(all);
    const ProcessResult r = trireme(files.command());
    EXPECT_EQ(r.status, 0) << r.err;
    return files.results();
}

/// The error of a run over these files, from the last folder's name on.
std::string refusal(const BatchFiles& files, const Words& more = {}) {
    const ProcessResult r = trireme(files.command(more));
    const Words errors = error_lines(r);
    EXPECT_THAT(errors, SizeIs(1)) << r.err;
    return std::to_string(r.status) + (errors.empty() ? "" : errors[0].substr(errors[0].find("/out")));
}

TEST(BatchOutput, GoesOnWhereALimitHasEndedIt) {
    const std::vector<Json> all = requests(5), want = uninterrupted(all);
    const BatchFiles files(all);

    EXPECT_EQ(trireme(files.command({"--limit", "2"})).status, 0);
    EXPECT_THAT(files.results(), ElementsAre(want[0], want[1]));
    const std::string first = read_file(files.output());
    EXPECT_EQ(trireme(files.command({"--sample_num", "2"})).status, 0);
    EXPECT_EQ(trireme(files.command({"--limit", "1"})).status, 0);
    EXPECT_EQ(read_file(files.output()), first);
    const ProcessResult rest = trireme(files.command({"--limit", "9"}));

    EXPECT_THAT(rest.err, HasSubstr("5 requests, 2 of them done before"));
    EXPECT_EQ(files.results(), want);
    EXPECT_EQ(read_file(files.output()).substr(0, first.size()), first);
}

TEST(BatchOutput, LosesATornLineAlone) {
    const std::vector<Json> all = requests(3), want = uninterrupted(all);
    const BatchFiles files(all);
    ASSERT_EQ(trireme(files.command()).status, 0);
    const std::string whole = read_file(files.output());
    const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
    for (const size_t size : {size_t{0}, size_t{1}, last - 1, last, last + 1, whole.size() - 1}) {
        write_file(files.output(), whole.substr(0, size));
        const ProcessResult r = trireme(files.command());
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(files.results(), want) << size << " of " << whole.size() << " bytes";
        EXPECT_EQ(r.err.find("was not finished") != std::string::npos, size != 0 && size != last) << r.err;
    }
}

TEST(BatchOutput, LosesNothingWhenTheRunIsKilled) {
    const std::vector<Json> all = requests(24), want = uninterrupted(all);
    for (const Words& flags : {Words{}, {"-np", "5"}}) {
        for (const char* moment : {"KV of all", "request 1 of", "request 7 of", "request 23 of", "request 24 of"}) {
            const BatchFiles files(all);
            const ProcessResult killed =
                trireme(files.command(flags), {.signal_at_output = SIGKILL, .signal_at_error = moment});
            EXPECT_THAT(killed.status, testing::AnyOf(128 + SIGKILL, 0)) << killed.err;
            EXPECT_EQ(trireme(files.command(flags)).status, 0);
            EXPECT_EQ(files.results(), want) << moment;
        }
    }
}

// Each run gets a little more time than the one before.
TEST(BatchOutput, LosesNothingWhenRunsAreKilledAgainAndAgain) {
    const std::vector<Json> all = requests(24), want = uninterrupted(all);
    const BatchFiles files(all);
    int runs = 0, status = -1;
    for (double seconds = 0.01; status != 0 && seconds < 60; seconds *= 1.1, ++runs) {
        Words words = {"timeout", "-s", "KILL", std::to_string(seconds), TRIREME_PROGRAM};
        const Words command = files.command();
        words.insert(words.end(), command.begin(), command.end());
        status = run_process(words).status;
    }
    EXPECT_EQ(status, 0);
    EXPECT_GT(runs, 1);
    EXPECT_EQ(files.results(), want);
}

TEST(BatchOutput, HasWholeLinesAfterASignal) {
    std::vector<Json> all = requests(2);
    all[1]["max_tokens"] = 1900;
    for (const int number : {SIGINT, SIGTERM}) {
        for (const char* parallel : {"1", "2"}) {
            const Words flags = {"--ignore-eos", "-np", parallel};
            const BatchFiles files(all);
            const ProcessResult r =
                trireme(files.command(flags), {.signal_at_output = number, .signal_at_error = "request 1 of"});
            EXPECT_EQ(r.status, 128 + number) << r.err;
            EXPECT_THAT(r.err, HasSubstr("stopped by signal " + std::to_string(number)));
            EXPECT_THAT(error_lines(r), SizeIs(0)) << r.err;
            EXPECT_THAT(files.results(), SizeIs(1));
            EXPECT_EQ(trireme(files.command(flags)).status, 0);
            EXPECT_THAT(files.results(), SizeIs(2));
        }
    }
}

TEST(BatchOutput, OfOtherRequestsIsRefused) {
    std::vector<Json> all = requests(3);
    const BatchFiles files(all);
    ASSERT_EQ(trireme(files.command({"--limit", "2"})).status, 0);
    const std::string made = read_file(files.output());
    const std::string instead = "; name another file, or begin anew with --force";

    all[1]["max_tokens"] = 2;
    write_file(files.input(), as_lines(all));
    EXPECT_THAT(refusal(files), HasSubstr("65/out.jsonl:2: its request is not that of "));
    EXPECT_EQ(read_file(files.output()), made);

    write_file(files.input(), as_lines({all[0]}));
    EXPECT_EQ(refusal(files), "65/out.jsonl:2: is the line of one more request; the input has 1" + instead);

    const Words lines = lines_of(made);
    write_file(files.output(), lines[1] + "\n");
    EXPECT_EQ(refusal(files), "65/out.jsonl:1: has the index 1, want 0" + instead);
    write_file(files.output(), "{\"a\": 1}\n");
    EXPECT_EQ(refusal(files),
              "65/out.jsonl:1: holds an object without them, want an object with index and request, "
              "as batch writes it" +
                  instead);
    write_file(files.output(), "some text\n");
    EXPECT_THAT(refusal(files), HasSubstr("65/out.jsonl:1"));

    const ProcessResult anew = trireme(files.command({"--force"}));
    EXPECT_EQ(anew.status, 0) << anew.err;
    EXPECT_THAT(files.results(), SizeIs(1));
}

// The lock is any process's: here a shell tool's.
TEST(BatchOutput, IsOneRunsAlone) {
    const BatchFiles files(requests(2));
    write_file(files.output(), "");
    Words words = {"flock", files.output(), TRIREME_PROGRAM};
    const Words command = files.command();
    words.insert(words.end(), command.begin(), command.end());

    const ProcessResult r = run_process(words);

    EXPECT_EQ(r.status, 73) << r.err;
    EXPECT_THAT(r.err, HasSubstr("another run is writing it"));
    EXPECT_EQ(read_file(files.output()), "");
}

// An order of keys, blanks and line ends say nothing.
TEST(BatchOutput, KnowsARequestThatIsWrittenOtherwise) {
    const BatchFiles files({});
    write_file(files.input(),
               "{\"prompt\": \"And it\", \"max_tokens\": 2}\r\n{\"prompt\": \"God\", \"max_tokens\": 2}");
    ASSERT_EQ(trireme(files.command({"--limit", "1"})).status, 0);
    EXPECT_THAT(read_file(files.output()), HasSubstr("\"request\":{\"prompt\": \"And it\", \"max_tokens\": 2},"));
    write_file(files.input(), "{\"max_tokens\":2,\"prompt\":\"And it\"}\n{\"prompt\":\"God\",\"max_tokens\":2}\n");

    EXPECT_EQ(trireme(files.command()).status, 0);

    EXPECT_THAT(files.results(), SizeIs(2));
}

}  // namespace
}  // namespace trireme::test
