// Parallel sequences and conversations that speculate or evict: each has the tokens that it has alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/batch_files.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

struct Case {
    const char* name;
    Words flags;
};
void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name;
}

std::vector<Case> chains() {
    const std::string draft = data("models/kjv-draft");
    return {{"ngram", {"--spec", "ngram", "--gamma", "5"}},
            {"draft", {"--spec", "draft", "-md", draft, "--gamma", "7"}},
            {"window", {"--spec", "window", "--gamma", "3"}},
            {"tree", {"--spec", "tree", "-md", draft, "--gamma", "4"}},
            {"retrieval", {"--spec", "retrieval", "--budget", "64", "--gamma", "20", "--reselect-queries", "3"}},
            {"triforce", {"--spec", "triforce", "-md", draft, "--budget", "64", "--gamma", "6", "--gamma-inner", "2"}},
            {"h2o", {"--spec", "h2o", "--kv-window", "128", "--gamma", "4"}}};
}

std::vector<Case> policies() {
    return {{"h2o_policy", {"--kv-policy", "h2o", "--kv-window", "96"}},
            {"streaming", {"--kv-policy", "streaming", "--kv-window", "64", "--kv-positions", "rolling"}},
            {"snapkv", {"--kv-policy", "snapkv", "--kv-window", "96", "--kv-every", "7"}},
            {"adakv", {"--kv-policy", "adakv", "--kv-window", "96", "--kv-every", "5", "--kv-positions", "rolling"}},
            {"random", {"--kv-policy", "random", "--kv-window", "64"}}};
}

std::vector<Case> all_cases() {
    std::vector<Case> all = chains();
    for (const Case& c : policies()) all.push_back(c);
    return all;
}

class Parallel : public testing::TestWithParam<Case> {
  protected:
    std::string text(size_t from, size_t n) const { return read_file(data("texts/kjv_12k.txt")).substr(from, n); }
    TempFolder folder_;
};

// Nine samples in up to eight slots: slots change hands, and rows of eight long drafts take several forwards.
TEST_P(Parallel, SamplesHaveTheirOwnTokens) {
    write_file(folder_ / "prompt.txt", text(0, 1500));
    for (const char* temperature : {"0", "0.8"}) {
        const Words how = Words{"generate", "-m",       model(),         "-f", folder_ / "prompt.txt",
                                "-n",       "40",       "--num-samples", "9",  "--seed",
                                "5",        "--stop",   " unto",         "-t", "1",
                                "--temp",   temperature} +
                          GetParam().flags;
        const ProcessResult alone = trireme(how);
        ASSERT_EQ(alone.status, 0) << alone.err;
        for (const Words& parallel : {Words{"-np", "3"}, {"-np", "8", "--kv-on-chip", "0"}}) {
            if (parallel.size() > 2 && GetParam().flags[0] == "--kv-policy") continue;
            const ProcessResult r = trireme(how + parallel);
            EXPECT_EQ(r.out, alone.out) << parallel[1] << " " << r.err;
        }
        if (temperature[0] == '0' && temperature[1] == 0) continue;
        const ProcessResult two = trireme_on(2, how);
        EXPECT_EQ(trireme_on(2, how + Words{"-np", "4"}).out, two.out);
    }
}

// Requests with prompts, seeds and temperatures of their own. Some join while others are being decoded.
TEST_P(Parallel, RequestsHaveTheirOwnTokens) {
    std::vector<Json> all;
    for (size_t i = 0; i < 7; ++i) {
        all.push_back({{"prompt", text(300 * i, 400 + 350 * (i % 4))}, {"max_tokens", 10 + 9 * (i % 3)}, {"seed", i}});
        if (i % 3 == 1) all.back()["temperature"] = 0;
        if (i % 3 == 2) all.back()["top_p"] = 0.8;
    }
    const BatchFiles alone(all), parallel(all);
    const Words how = Words{"--temp", "0.8", "--no-progress"} + GetParam().flags;
    ASSERT_EQ(trireme(alone.command(how)).status, 0);
    for (const char* slots : {"3", "7"}) {
        const ProcessResult r = trireme(parallel.command(how + Words{"-np", slots, "--force"}));
        ASSERT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(parallel.results(), alone.results()) << slots;
    }
}

INSTANTIATE_TEST_SUITE_P(Flags, Parallel, testing::ValuesIn(all_cases()), [](const auto& c) { return c.param.name; });

class Conversation : public Parallel {};

// A conversation of four turns, of which the second is longer than the drafting windows.
TEST_P(Conversation, SpeculatesWithTheTokensOfPlainDecoding) {
    std::string lines;
    for (const auto& [from, n] : {std::pair<size_t, size_t>{0, 900}, {2000, 1700}, {5000, 40}, {6000, 500}}) {
        lines += Json({{"text", text(from, n)}}).dump() + "\n";
    }
    write_file(folder_ / "turns.jsonl", lines);
    const Words talk = {"generate", "-m", model(), "--session", folder_ / "turns.jsonl", "-n", "30", "-t", "1"};
    if (GetParam().flags[1] == "h2o") {
        const ProcessResult r = trireme(talk + GetParam().flags);
        EXPECT_EQ(r.status, 64) << r.err;
        EXPECT_EQ(error_lines(r).size(), 1u);
        return;
    }
    const ProcessResult plain = trireme(talk + Words{"--temp", "0"});
    ASSERT_EQ(plain.status, 0) << plain.err;
    for (const Words& more : {Words{}, {"--kv-on-chip", "0"}, {"--stop", " and", "--stop", "; "}}) {
        const Words how = Words{"--temp", "0"} + more;
        const ProcessResult r =
            trireme(talk + GetParam().flags + how + Words{"--report-json", folder_ / "r.json", "--force"});
        EXPECT_EQ(r.out, more.empty() || more[0] != "--stop" ? plain.out : trireme(talk + how).out) << r.err;
        const Json report = Json::parse(read_file(folder_ / "r.json"));
        EXPECT_GT(report.at("/speculation/0/accepted"_json_pointer), 0);
    }
    // Draws depend on the seed and the turn alone.
    const Words sampled = talk + GetParam().flags + Words{"--temp", "0.9", "--seed", "3"};
    const ProcessResult first = trireme(sampled);
    EXPECT_EQ(trireme(sampled + Words{"--kv-on-chip", "1"}).out, first.out) << first.err;
    const ProcessResult two = trireme_on(2, sampled);
    EXPECT_EQ(two.status, 0) << two.err;
}

INSTANTIATE_TEST_SUITE_P(Chains, Conversation, testing::ValuesIn(chains()), [](const auto& c) { return c.param.name; });

// A draft length `auto` uses measured costs: tokens of temperature 0 do not depend on them.
TEST(ParallelCommand, AdaptsDraftLengths) {
    const Words how = {
        "generate", "-m", model(), "-p", "In the beginning God created", "-n", "50", "--num-samples", "5",
        "--temp",   "0",  "-t",    "1"};
    const ProcessResult plain = trireme(how);
    EXPECT_EQ(trireme(how + Words{"--spec", "ngram", "-np", "5"}).out, plain.out);
    EXPECT_EQ(trireme(how + Words{"--spec", "draft", "-md", data("models/kjv-draft"), "-np", "2"}).out, plain.out);
}

// --parallel auto counts what each sequence adds: a retrieved set, a drafting level, or what it retains.
TEST(ParallelCommand, FindsHowManyFit) {
    for (const Words& flags : {Words{"--spec", "retrieval", "--budget", "512"}, {"--kv-policy", "h2o"}}) {
        const ProcessResult r =
            trireme(Words{"generate", "-m", model(), "-p", "And God said", "-n", "400", "--num-samples", "50", "-np",
                          "auto", "--device-memory", "48M", "-t", "1"} +
                    flags);
        EXPECT_EQ(r.status, 0) << r.err;
    }
}

// A line per flag that parallel sequences and conversations cannot have.
TEST(ParallelCommand, RefusesSnapshotsOfSeveralSequences) {
    const ProcessResult r = trireme(
        {"generate", "-m", model(), "-p", "And", "-n", "4", "--num-samples", "2", "-np", "2", "--load-kv", "x.h5"});
    EXPECT_EQ(r.status, 64) << r.err;
    EXPECT_THAT(r.err, HasSubstr("--load-kv"));
}

}  // namespace
}  // namespace trireme::test
