// Snapshots of conversations: wherever a conversation is stopped, it resumes with the tokens of one that was not.

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

struct Case {
    const char* name;
    Words flags;
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

class SessionSnapshot : public testing::TestWithParam<Case> {
  protected:
    /// A file with the first `n` of these turns; the first has about 400 tokens.
    std::string turns(size_t n) const {
        const std::string text = read_file(data("texts/kjv_12k.txt"));
        const std::string said[] = {text.substr(0, 1100), text.substr(2000, 60), text.substr(3000, 330), " And he"};
        std::string lines;
        for (size_t t = 0; t < n; ++t) lines += json({{"text", said[t]}}).dump() + "\n";
        const std::string path = folder_ / ("turns" + std::to_string(n) + ".jsonl");
        write_file(path, lines);
        return path;
    }
    std::string file() const { return folder_ / "said.h5"; }
    static Words talk(const std::string& turns, const Words& more, const Words& and_more = {}) {
        Words words = {"generate", "-m", model(),         "--session", turns, "-n",     "24",
                       "-t",       "1",  "--no-progress", "--temp",    "0.9", "--seed", "7"};
        words.insert(words.end(), more.begin(), more.end());
        words.insert(words.end(), and_more.begin(), and_more.end());
        return words;
    }
    static ProcessResult on(int ranks, const Words& words, const ProcessOptions& options = {}) {
        return ranks == 1 ? trireme(words, options) : trireme_on(ranks, words, options);
    }

    TempFolder folder_;
};

/// A link so slow that a signal arrives before the run ends.
const Words kSlowly = {"--kv-on-chip", "0", "--link-gbps", "0.03"};

// Conversations resume from a snapshot after the last turn, or after two of four turns. Snapshots during answers do not
// change the output.
TEST_P(SessionSnapshot, ContinuesWithTheTokensOfTheOneThatWasNotStopped) {
    const Words& how = GetParam().flags;
    for (const int ranks : {1, 2}) {
        const ProcessResult whole = on(ranks, talk(turns(4), how));
        ASSERT_EQ(whole.status, 0) << whole.err;
        for (const char* every : {"0", "9"}) {
            const ProcessResult saving =
                on(ranks, talk(turns(4), how, {"--save-kv", file(), "--checkpoint-every", every}));
            ASSERT_EQ(saving.status, 0) << saving.err;
            EXPECT_EQ(saving.out, whole.out);
            const ProcessResult again = on(ranks, talk(turns(4), how, {"--load-kv", file()}));
            EXPECT_EQ(again.status, 0) << again.err;
            EXPECT_EQ(again.out, whole.out) << "all is said already";
            fs::remove(file());
        }
        // Fewer turns, then all of them.
        ASSERT_EQ(on(ranks, talk(turns(2), how, {"--save-kv", file()})).status, 0);
        const ProcessResult more = on(ranks, talk(turns(4), how, {"--load-kv", file(), "--save-kv", file()}));
        EXPECT_EQ(more.status, 0) << more.err;
        EXPECT_THAT(more.err, HasSubstr(kExactTokens));
        EXPECT_EQ(more.out, whole.out);
        fs::remove(file());
    }
}

TEST_P(SessionSnapshot, StopsOnSignalsInTheMidstOfAnswers) {
    const Words how = GetParam().flags;
    const bool slow = how.empty() || how[0] == "--spec";  // an evicting cache is not streamed
    for (const int ranks : {1, 2}) {
        const ProcessResult whole = on(ranks, talk(turns(3), how));
        for (const int number : {SIGUSR1, SIGTERM}) {
            if (ranks > 1 && number == SIGTERM) continue;  // mpirun has its own exit code for it
            Words stopping = talk(turns(3), how, {"--save-kv", file(), "--grace", "30"});
            if (slow) stopping = stopping + kSlowly;
            const ProcessResult stopped = on(ranks, stopping, {.signal_at_output = number});
            if (stopped.status != 0 || slow) {
                EXPECT_EQ(stopped.status, 75) << stopped.err;
                EXPECT_THAT(stopped.err, HasSubstr("resume with --load-kv " + file()));
            }
            const ProcessResult r = on(ranks, talk(turns(3), how, {"--load-kv", file()}));
            EXPECT_EQ(r.status, 0) << r.err;
            EXPECT_EQ(r.out, whole.out);
            fs::remove(file());
        }
    }
}

// The answer in progress has more tokens than the resumed run allows: it is complete, and the next turn is answered.
TEST_P(SessionSnapshot, ContinuesAfterAnAnswerThatIsLongEnough) {
    const Words how = GetParam().flags;
    Words stopping = talk(turns(3), how, {"--save-kv", file(), "--checkpoint-every", "3"});
    if (how.empty() || how[0] == "--spec") stopping = stopping + kSlowly;
    const ProcessResult stopped = trireme(stopping, {.signal_at_output = SIGUSR1});
    ASSERT_TRUE(stopped.status == 75 || stopped.status == 0) << stopped.err;
    const ProcessResult r = trireme(talk(turns(3), how, {"--load-kv", file(), "-n", "1"}));
    EXPECT_EQ(r.status, 0) << r.err;
}

// Each moment at which a snapshot is written: after a turn is read, and after every round.
TEST_P(SessionSnapshot, AKilledConversationOfAnyKindContinues) {
    const Words how = GetParam().flags;
    if (!how.empty() && how[0] != "--spec") return;  // an evicting cache is not streamed: it ends too soon
    const ProcessResult whole = trireme(talk(turns(2), how));
    const ProcessResult killed = trireme(
        talk(turns(2), how + kSlowly, {"--save-kv", file(), "--checkpoint-every", "1"}), {.signal_at_output = SIGKILL});
    EXPECT_EQ(killed.status, 128 + SIGKILL);
    const ProcessResult r = trireme(talk(turns(2), how, {"--load-kv", file()}));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, whole.out);
    const ProcessResult read = trireme(talk(turns(2), how + kSlowly, {"--save-kv", folder_ / "read.h5"}),
                                       {.signal_at_output = SIGKILL});  // written when the first turn had been read
    EXPECT_EQ(read.status, 128 + SIGKILL);
    const ProcessResult again = trireme(talk(turns(2), how, {"--load-kv", folder_ / "read.h5"}));
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_EQ(again.out, whole.out);
}

// A plain conversation that was stopped within an answer continues with a chain; sets of other tokens are not there.
TEST_F(SessionSnapshot, ContinuesWithAnotherChain) {
    const Words greedy = {"--temp", "0"}, ngram = {"--spec", "ngram", "--gamma", "4"};
    const ProcessResult whole = trireme(talk(turns(3), greedy));
    const ProcessResult stopped =
        trireme(talk(turns(3), greedy + kSlowly, {"--save-kv", file()}), {.signal_at_output = SIGUSR1});
    EXPECT_EQ(stopped.status, 75) << stopped.err;
    const ProcessResult r = trireme(talk(turns(3), greedy + ngram, {"--load-kv", file()}));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, whole.out);
    const ProcessResult sets =
        trireme(talk(turns(3), greedy + Words{"--spec", "retrieval", "--budget", "64"}, {"--load-kv", file()}));
    EXPECT_EQ(sets.status, 78) << sets.err;
    EXPECT_THAT(error_lines(sets), ElementsAre(HasSubstr("retrieved")));
}

TEST_F(SessionSnapshot, AKilledConversationContinues) {
    const ProcessResult whole = trireme(talk(turns(3), {}));
    const ProcessResult killed = trireme(talk(turns(3), kSlowly, {"--save-kv", file(), "--checkpoint-every", "2"}),
                                         {.signal_at_output = SIGKILL});
    EXPECT_EQ(killed.status, 128 + SIGKILL);
    const ProcessResult r = trireme(talk(turns(3), {}, {"--load-kv", file()}));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.out, whole.out);
}

// A dump that resumes within an answer has the lines that the whole dump has from there on.
TEST_F(SessionSnapshot, ADumpContinuesWhereTheAnswerWas) {
    const Words how = {"--kv-policy", "h2o", "--kv-window", "96"};
    const std::string whole = folder_ / "whole.jsonl", rest = folder_ / "rest.jsonl";
    ASSERT_EQ(trireme(talk(turns(3), how, {"--kv-dump", whole})).status, 0);
    const ProcessResult stopped = trireme(talk(turns(3), how, {"--save-kv", file()}), {.signal_at_output = SIGUSR1});
    ASSERT_TRUE(stopped.status == 75 || stopped.status == 0) << stopped.err;
    const ProcessResult r = trireme(talk(turns(3), how, {"--load-kv", file(), "--kv-dump", rest}));
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_TRUE(read_file(whole).ends_with(read_file(rest))) << read_file(rest).substr(0, 200);
    EXPECT_EQ(read_file(rest).empty(), stopped.status == 0);
}

TEST_F(SessionSnapshot, ReportsSayWhatWasResumed) {
    ASSERT_EQ(trireme(talk(turns(1), {}, {"--save-kv", file()})).status, 0);
    const std::string report = folder_ / "report.json";
    const ProcessResult r = trireme(talk(turns(2), {}, {"--load-kv", file(), "--report-json", report}));
    EXPECT_EQ(r.status, 0) << r.err;
    const json facts = json::parse(read_file(report))["turns"];
    EXPECT_EQ(facts[0]["resumed_tokens"], facts[0]["new_tokens"]) << facts;
    EXPECT_EQ(facts[0]["prefill_ms"], 0.0) << facts;
    EXPECT_EQ(facts[1]["resumed_tokens"], 0) << facts;
}

// Greedy ids in f32 are the same on any number of ranks.
TEST_F(SessionSnapshot, OtherRanksTakeTheirHeads) {
    const Words greedy = {"--temp", "0", "--dtype", "f32", "-ctk", "f32", "-ctv", "f32"};
    const ProcessResult whole = trireme(talk(turns(4), greedy));
    for (const auto& [written, read] : {std::pair{2, 1}, {1, 2}, {1, 4}}) {
        ASSERT_EQ(on(written, talk(turns(2), greedy, {"--save-kv", file(), "--checkpoint-every", "10"})).status, 0);
        const ProcessResult r = on(read, talk(turns(4), greedy, {"--load-kv", file()}));
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_THAT(r.err, HasSubstr(kSameDistribution));
        EXPECT_EQ(r.out, whole.out) << written << " -> " << read;
        fs::remove(file());
    }
}

// A conversation resumes from the snapshot of a long text; a chain resumes from the snapshot of a conversation.
TEST_F(SessionSnapshot, DocumentsAndConversationsResumeEachOther) {
    const std::string text = read_file(data("texts/kjv_12k.txt")).substr(0, 2000);
    write_file(folder_ / "text.txt", text);
    const Words base = {"generate", "-m", model(), "-t", "1", "--no-progress", "--temp", "0", "--print", "ids"};
    ASSERT_EQ(trireme(base + Words{"-f", folder_ / "text.txt", "-n", "1", "--save-kv", file()}).status, 0);
    write_file(folder_ / "asked.jsonl", json({{"text", " And it came to pass"}}).dump());
    const Words asks = base + Words{"--session", folder_ / "asked.jsonl", "-n", "20", "--no-bos"};
    const ProcessResult about = trireme(asks + Words{"--load-kv", file(), "--save-kv", folder_ / "about.h5"});
    EXPECT_EQ(about.status, 0) << about.err;
    json both = json::parse(trireme({"tokenize", "-m", model(), "-f", folder_ / "text.txt", "--add-special"}).out);
    for (const json& id : json::parse(trireme({"tokenize", "-m", model(), "-p", " And it came to pass"}).out)) {
        both.push_back(id);
    }
    write_file(folder_ / "both.json", both.dump());
    const ProcessResult one = trireme(base + Words{"--prompt-ids", folder_ / "both.json", "-n", "20"});
    EXPECT_EQ(about.out, one.out);
    const ProcessResult goes_on =
        trireme(base + Words{"-n", "30", "--load-kv", folder_ / "about.h5", "--spec", "ngram"});
    EXPECT_EQ(goes_on.status, 0) << goes_on.err;
    EXPECT_EQ(goes_on.out, trireme(base + Words{"--prompt-ids", folder_ / "both.json", "-n", "30"}).out);
}

TEST_F(SessionSnapshot, RefusesInOneLine) {
    ASSERT_EQ(trireme(talk(turns(2), {}, {"--save-kv", file()})).status, 0);
    write_file(folder_ / "others.jsonl", json({{"text", "Who art thou?"}}).dump());
    const ProcessResult others = trireme(talk(folder_ / "others.jsonl", {}, {"--load-kv", file()}));
    EXPECT_EQ(others.status, 78) << others.err;
    EXPECT_THAT(error_lines(others), ElementsAre(HasSubstr("turn 1: ")));
    const ProcessResult bounded =
        trireme(talk(turns(2), {"--kv-policy", "h2o", "--kv-window", "128"}, {"--load-kv", file()}));
    EXPECT_EQ(bounded.status, 78) << bounded.err;
    EXPECT_THAT(error_lines(bounded), ElementsAre(HasSubstr("said.h5")));
    EXPECT_EQ(trireme(talk(turns(2), {}, {"--save-kv", file()})).status, 73) << "it is there already";
}

INSTANTIATE_TEST_SUITE_P(
    Caches, SessionSnapshot,
    testing::Values(Case{"full", {}}, Case{"ngram", {"--spec", "ngram", "--gamma", "4"}},
                    Case{"triforce",
                         {"--spec", "triforce", "-md", data("models/kjv-draft"), "--budget", "64", "--gamma", "6",
                          "--gamma-inner", "2"}},
                    Case{"h2o", {"--kv-policy", "h2o", "--kv-window", "96"}},
                    Case{"rolling", {"--kv-policy", "streaming", "--kv-window", "128", "--kv-positions", "rolling"}}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace trireme::test
