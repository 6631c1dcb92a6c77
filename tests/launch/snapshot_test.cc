// Snapshots: a run that resumes from one gives the tokens of the run that wrote it.

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
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Test fixture: a prompt of about 1,100 tokens, and a path for snapshots.
class SnapshotTest : public testing::Test {
  protected:
    SnapshotTest() { write_file(folder_ / "prompt.txt", read_file(data("texts/kjv_12k.txt")).substr(0, 3000)); }

    Words prompt() const { return {"-f", folder_ / "prompt.txt"}; }
    std::string file() const { return folder_ / "snapshot.h5"; }
    static Words generate(const Words& more, const Words& and_more = {}, const char* n = "60") {
        Words words = {"generate", "-m", model(), "-n", n, "-t", "1", "--no-progress", "--ignore-eos"};
        words.insert(words.end(), more.begin(), more.end());
        words.insert(words.end(), and_more.begin(), and_more.end());
        return words;
    }
    Words save(const char* every = "0") const { return {"--save-kv", file(), "--checkpoint-every", every}; }
    Words load() const { return {"--load-kv", file()}; }
    static ProcessResult on(int ranks, const Words& words, const ProcessOptions& options = {}) {
        return ranks == 1 ? trireme(words, options) : trireme_on(ranks, words, options);
    }

    TempFolder folder_;
};

struct Case {
    const char* name;
    Words flags;
    bool adapts = false;  // draft lengths depend on measured costs, which a snapshot contains
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

std::vector<Case> cases() {
    const std::string draft = data("models/kjv-draft");
    return {{"plain", {}},
            {"streamed", {"--kv-on-chip", "1"}},
            {"ngram", {"--spec", "ngram", "--gamma", "5"}},
            {"auto", {"--spec", "ngram"}, /*adapts=*/true},
            {"draft", {"--spec", "draft", "-md", draft, "--gamma", "4"}},
            {"window", {"--spec", "window", "--draft-window", "128", "--gamma", "3", "-ctk", "f32", "-ctv", "bf16"}},
            {"retrieval",
             {"--spec", "retrieval", "--budget", "128", "--gamma", "4", "--reselect", "5", "--reselect-queries", "3"}},
            {"triforce",
             {"--spec", "triforce", "-md", draft, "--budget", "128", "--gamma", "6", "--gamma-inner", "2",
              "--kv-on-chip", "2"}},
            {"tree", {"--spec", "tree", "-md", draft, "--gamma", "4"}},
            {"h2o", {"--spec", "h2o", "--kv-window", "128", "--gamma", "4"}},
            {"h2o_policy", {"--kv-policy", "h2o", "--kv-window", "128"}},
            {"adakv", {"--kv-policy", "adakv", "--kv-window", "128", "--kv-every", "8"}},
            {"rolling", {"--kv-policy", "streaming", "--kv-window", "128", "--kv-positions", "rolling"}}};
}

class Resumed : public SnapshotTest, public testing::WithParamInterface<Case> {};

// At temperature > 0, so tokens depend on earlier rounds and on the state of drafts and sets.
TEST_P(Resumed, GivesTheTokensOfTheRunThatContinued) {
    const Words how = GetParam().flags + Words{"--temp", "0.9", "--seed", "11"};
    for (const int ranks : {1, 2}) {
        const ProcessResult plain = on(ranks, generate(prompt(), how));
        ASSERT_EQ(plain.status, 0) << plain.err;
        const ProcessResult saving = on(ranks, generate(prompt(), how + save("17")));
        ASSERT_EQ(saving.status, 0) << saving.err;
        if (!GetParam().adapts) {
            EXPECT_EQ(saving.out, plain.out) << "with snapshots";
        }
        EXPECT_THAT(saving.err, HasSubstr("snapshot " + file()));
        const ProcessResult resumed = on(ranks, generate(load(), how));
        ASSERT_EQ(resumed.status, 0) << resumed.err;
        EXPECT_THAT(resumed.err, HasSubstr(kExactTokens));
        EXPECT_EQ(resumed.out, saving.out) << ranks << " ranks";
        fs::remove(file());
    }
}

// The snapshot is of a run of one sample: it keeps no second copy of what the prompt selected.
TEST_P(Resumed, SeveralSamplesContinueAPrompt) {
    if (GetParam().adapts) GTEST_SKIP() << "lengths follow what forwards take";
    const Words how = GetParam().flags + Words{"--temp", "0.9", "--seed", "11"},
                several = how + Words{"--num-samples", "3"};
    ASSERT_EQ(trireme(generate(prompt(), how + save(), "1")).status, 0);
    const ProcessResult resumed = trireme(generate(load(), several));
    if (resumed.status == 65) GTEST_SKIP() << resumed.err;  // policies that evict keep one state
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(resumed.out, trireme(generate(prompt(), several)).out);
}

// Runs that are many tiles longer or shorter, and have sets of other sizes, can resume from the same snapshot.
TEST_P(Resumed, RunsOfAnyLengthContinue) {
    if (GetParam().adapts) GTEST_SKIP() << "lengths follow what forwards take";
    const Words how = GetParam().flags + Words{"--temp", "0.9", "--seed", "11"};
    for (const auto& [saved, wanted] : {std::pair("1", "400"), std::pair("400", "30")}) {
        const ProcessResult plain = trireme(generate(prompt(), how, wanted));
        ASSERT_EQ(plain.status, 0) << plain.err;
        ASSERT_EQ(trireme(generate(prompt(), how + save(), saved)).status, 0);
        const ProcessResult resumed = trireme(generate(load(), how + Words{"--record", folder_ / "runs.h5"}, wanted));
        ASSERT_EQ(resumed.status, 0) << resumed.err;
        EXPECT_THAT(resumed.err, HasSubstr(kExactTokens));
        EXPECT_EQ(resumed.out, plain.out) << saved << " " << wanted;
        fs::remove(file());
    }
}

// The seed affects sampling only, and no state in a chain's snapshot. (A run with --kv-policy resumes only with the
// same flags.)
TEST_P(Resumed, ContinuesWithAnotherSeed) {
    if (std::ranges::find(GetParam().flags, "--kv-policy") != GetParam().flags.end())
        GTEST_SKIP() << "needs the same flags";
    const Words how = GetParam().flags + Words{"--temp", "0"};
    ASSERT_EQ(trireme(generate(prompt(), how + save() + Words{"--seed", "11"}, "1")).status, 0);

    const ProcessResult resumed = trireme(generate(load(), how + Words{"--seed", "12"}, "20"));

    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(resumed.out, trireme(generate(prompt(), how + Words{"--seed", "12"}, "20")).out);
}

// The prompt is read once, and every chain can resume from its snapshot.
TEST_F(SnapshotTest, AfterAPromptAnyChainContinues) {
    const ProcessResult saving =
        trireme(generate(prompt(), save() + Words{"--spec", "retrieval", "--budget", "128", "--temp", "0"}, "1"));
    ASSERT_EQ(saving.status, 0) << saving.err;
    const ProcessResult plain = trireme(generate(prompt(), {"--temp", "0"}));
    const std::string draft = data("models/kjv-draft");
    for (const Words& chain : {Words{}, Words{"--spec", "ngram"}, Words{"--spec", "draft", "-md", draft},
                               Words{"--spec", "window", "--kv-on-chip", "0"},
                               Words{"--spec", "triforce", "-md", draft, "--budget", "128"}}) {
        const ProcessResult r = trireme(generate(load() + prompt(), chain + Words{"--temp", "0"}));
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(r.out, plain.out) << r.err;
        EXPECT_THAT(r.err, AllOf(HasSubstr("] resumed "), Not(HasSubstr("] prefill ")))) << r.err;
    }
    // The snapshot has no heavy hitters, so a chain that needs them cannot resume.
    const ProcessResult none = trireme(generate(load(), {"--spec", "h2o", "--kv-window", "128"}));
    EXPECT_EQ(none.status, 78);
    EXPECT_THAT(error_lines(none), ElementsAre(AllOf(HasSubstr("nothing heavy"), HasSubstr("--spec"))));
}

TEST_F(SnapshotTest, AnotherNumberOfRanksTakesItsHeads) {
    const Words greedy = {"--temp", "0", "-ctk", "f32", "-ctv", "f32"};
    for (const auto& [written, read] : {std::pair{2, 1}, {1, 2}, {1, 4}}) {
        SCOPED_TRACE(std::to_string(written) + " -> " + std::to_string(read));
        const ProcessResult saving = on(written, generate(prompt(), greedy + save("20")));
        ASSERT_EQ(saving.status, 0) << saving.err;
        const ProcessResult r = on(read, generate(load(), greedy));
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(r.out, saving.out);
        EXPECT_THAT(r.err, HasSubstr(kSameDistribution));
        fs::remove(file());
    }
}

/// A link so slow (about 20 tokens a second) that a signal arrives before the run ends.
const Words kSlowly = {"--kv-on-chip", "0", "--link-gbps", "0.05"};

TEST_F(SnapshotTest, SigUsr1SavesAndEnds) {
    for (const int ranks : {1, 2}) {
        const Words how = {"--temp", "0.8", "--seed", "5", "--spec", "window", "--gamma", "2"};
        const Words saves = {"--save-kv", file()};
        const ProcessResult stopped =
            on(ranks, generate(prompt(), how + saves + kSlowly), {.signal_at_output = SIGUSR1});
        EXPECT_EQ(stopped.status, 75) << stopped.err;
        EXPECT_THAT(stopped.err, HasSubstr("resume with --load-kv " + file()));
        // Once more, overwriting its own snapshot; the generated text is printed again.
        const ProcessResult again = on(ranks, generate(load(), how + saves + kSlowly), {.signal_at_output = SIGUSR1});
        EXPECT_EQ(again.status, 75) << again.err;
        const ProcessResult whole = on(ranks, generate(prompt(), how)), r = on(ranks, generate(load(), how));
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(r.out, whole.out);
        EXPECT_TRUE(whole.out.starts_with(stopped.out.substr(0, stopped.out.find_last_not_of('\n'))));
        fs::remove(file());
    }
}

TEST_F(SnapshotTest, SigTermSavesIfThereIsTime) {
    const auto run = [&](const char* grace) {
        return trireme(
            generate(prompt(), kSlowly + Words{"--temp", "0", "--force", "--save-kv", file(), "--grace", grace}),
            {.signal_at_output = SIGTERM});
    };
    const ProcessResult saved = run("30");
    EXPECT_EQ(saved.status, 75) << saved.err;
    const ProcessResult not_saved = run("0.0001");
    EXPECT_EQ(not_saved.status, 143) << not_saved.err;
    EXPECT_THAT(not_saved.err, AllOf(HasSubstr("SIGTERM: "), HasSubstr("(--grace)")));
    // The last snapshot is the one after the prefill.
    const ProcessResult r = trireme(generate(load(), {"--temp", "0"}));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr(", 0 generated"));
}

TEST_F(SnapshotTest, AKilledRunLeavesTheLastOne) {
    const Words how = {"--temp", "0.9", "--seed", "2"};
    const ProcessResult whole = trireme(generate(prompt(), how));
    const ProcessResult killed = trireme(generate(prompt(), how + save("3") + kSlowly), {.signal_at_output = SIGKILL});
    EXPECT_EQ(killed.status, 128 + SIGKILL);
    const ProcessResult again = trireme(generate(prompt(), how + save()));
    EXPECT_EQ(again.status, 73) << "it is not written over by another run";
    const ProcessResult resumed = trireme(generate(load(), how));
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_EQ(resumed.out, whole.out);
}

TEST_F(SnapshotTest, IsRefusedWhereItIsNotWhatItSays) {
    ASSERT_EQ(trireme(generate(prompt(), save(), "1")).status, 0);
    const std::string good = read_file(file());
    const auto refused = [&](int status, const std::string& what) {
        const ProcessResult r = trireme(generate(load()));
        EXPECT_EQ(r.status, status) << r.err;
        EXPECT_THAT(error_lines(r), ElementsAre(AllOf(HasSubstr("snapshot.h5"), HasSubstr(what))));
    };
    for (const size_t at : {size_t{30}, good.size() / 3, good.size() / 2, good.size() - 9}) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 4);
        write_file(file(), bad);
        refused(65, "");
    }
    write_file(file(), good.substr(0, good.size() / 2));
    refused(65, "another size");
    write_file(file(), "x");
    refused(65, "trireme's");
    fs::remove(file());
    refused(66, "No such file");
    write_file(file(), good);
    const ProcessResult other = trireme({"generate", "-m", data("models/kjv-draft"), "-n", "2", "--load-kv", file()});
    EXPECT_EQ(other.status, 65);
    EXPECT_THAT(error_lines(other), ElementsAre(AllOf(HasSubstr(file() + ": "), HasSubstr("another model"))));
    const ProcessResult text = trireme(generate(load(), {"-p", "In the beginning"}));
    EXPECT_EQ(text.status, 78);
    EXPECT_THAT(error_lines(text), ElementsAre(AllOf(HasSubstr("--load-kv " + file()), HasSubstr("from token "))));
    const ProcessResult bounded = trireme(generate(load(), {"--kv-policy", "h2o", "--kv-window", "128"}));
    EXPECT_EQ(bounded.status, 78) << bounded.err;
    EXPECT_EQ(trireme(generate(load(), {"--num-samples", "4", "-np", "4"})).status, 64);
    EXPECT_EQ(trireme(generate(prompt(), {"--num-samples", "4", "--save-kv", folder_ / "new.h5"})).status, 64);
    EXPECT_EQ(trireme(generate(prompt(), {"--checkpoint-every", "4"})).status, 64);
}

INSTANTIATE_TEST_SUITE_P(Chains, Resumed, testing::ValuesIn(cases()),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace trireme::test
