// --spec: the tokens of plain decoding, whoever proposes; what reports say; what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// Longer than what a retrieving level always sees, beside its budget.
const std::string kPrompt = [] {
    std::string text;
    for (int i = 0; i < 16; ++i) text += "And God said, Let there be light: and there was light. ";
    return text + "And God saw the light";
}();

std::string draft() {
    return data("models/kjv-draft");
}
Words generate(const Words& more) {
    Words words = {"generate", "-m", model(), "-p", kPrompt, "-n", "120", "--temp", "0", "-t", "1", "--print", "ids"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

TEST(SpeculationCommand, GivesTheTokensOfPlainDecoding) {
    const std::string plain = trireme(generate({})).out;
    for (const Words& chain : {Words{"--spec", "ngram"},
                               {"--spec", "ngram", "--gamma", "1"},
                               {"--spec", "window", "--draft-window", "128"},
                               {"--spec", "draft", "-md", draft()},
                               {"--spec", "draft", "-md", draft(), "--gamma", "12", "--draft-window", "128"},
                               {"--spec", "retrieval", "--budget", "64"},
                               {"--spec", "retrieval", "--budget", "16", "--chunk-size", "1", "--reselect", "never"},
                               {"--spec", "tree", "--budget", "64"},
                               {"--spec", "tree", "--tree-size", "63", "--gamma", "9", "--budget", "16"},
                               {"--spec", "triforce", "-md", draft(), "--budget", "32", "--reselect", "3"},
                               {"--spec", "ngram+window+retrieval+full", "--budget", "64", "--gamma", "20"}}) {
        for (const Words& where : {Words{}, {"--kv-on-chip", "2"}}) {
            Words words = chain;
            words.insert(words.end(), where.begin(), where.end());
            const ProcessResult r = trireme(generate(words));
            EXPECT_EQ(r.out, plain) << testing::PrintToString(words) << r.err;
            EXPECT_THAT(r.err, HasSubstr(" tokens a round"));
        }
    }
}

TEST(SpeculationCommand, GivesThemOnTwoRanks) {
    const std::string plain = trireme_on(2, generate({})).out;
    for (const Words& chain : {Words{"--spec", "ngram"},
                               {"--spec", "window"},
                               {"--spec", "draft", "-md", draft()},
                               {"--spec", "retrieval", "--budget", "64"},
                               {"--spec", "tree", "--budget", "64"},
                               {"--spec", "triforce", "-md", draft(), "--budget", "64", "--kv-on-chip", "2"}}) {
        const ProcessResult r = trireme_on(2, generate(chain));
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(r.out, plain);
    }
}

TEST(SpeculationCommand, SamplesBeginAlike) {
    for (const Words& chain :
         {Words{"--spec", "draft"}, {"--spec", "tree", "--budget", "32"}, {"--spec", "triforce", "--budget", "32"}}) {
        Words sampled = {"-md", draft(), "--temp", "0.8", "--num-samples", "3"};
        sampled.insert(sampled.begin(), chain.begin(), chain.end());
        const ProcessResult r = trireme(generate(sampled)), again = trireme(generate(sampled));
        EXPECT_EQ(r.out, again.out);
        ASSERT_THAT(lines_of(r.out), SizeIs(3)) << r.err;
        Words one = sampled;
        one.back() = "1";
        EXPECT_EQ(trireme(generate(one)).out, lines_of(r.out)[0] + "\n");
    }
}

TEST(SpeculationCommand, ReportsWhatStayed) {
    const TempFolder folder;
    const ProcessResult r =
        trireme(generate({"--spec", "draft", "-md", draft(), "--gamma", "4", "--report-json", folder / "r.json"}));
    ASSERT_EQ(r.status, 0) << r.err;
    const json report = json::parse(read_file(folder / "r.json"));
    ASSERT_THAT(report["speculation"], SizeIs(1));
    const json level = report["speculation"][0];
    EXPECT_EQ(level["chain"], "draft+full");
    const int64_t rounds = level["rounds"], accepted = level["accepted"], proposed = level["proposed"];
    EXPECT_EQ(report["rounds"], rounds + 1);  // the first token is the prefill's
    EXPECT_GE(1 + rounds + accepted, 120);    // the last round may go beyond
    EXPECT_GT(accepted, 0);
    EXPECT_LE(accepted, proposed);
    EXPECT_THAT(level["accept_rate_by_depth"], SizeIs(4));
    EXPECT_DOUBLE_EQ(level["accept_rate"], static_cast<double>(accepted) / static_cast<double>(proposed));
    EXPECT_EQ(json::parse(trireme(generate({"--report-json", "-"})).out)["speculation"], json::array());
}

TEST(SpeculationCommand, ATreeIsAsDeepAsGammaSays) {
    const TempFolder folder;
    const ProcessResult r = trireme(generate(
        {"--spec", "tree", "--budget", "64", "--gamma", "3", "--tree-size", "17", "--report-json", folder / "r.json"}));
    ASSERT_EQ(r.status, 0) << r.err;
    const json level = json::parse(read_file(folder / "r.json"))["speculation"][0];
    EXPECT_EQ(level["chain"], "tree+full");
    EXPECT_THAT(level["accept_rate_by_depth"], SizeIs(3));
    const int64_t rounds = level["rounds"], proposed = level["proposed"];
    EXPECT_GT(proposed, 16 * (rounds - 2));  // the last rounds may have less room
    EXPECT_LE(proposed, 17 * rounds);
}

TEST(SpeculationCommand, RefusesADraftThatIsNone) {
    const auto refused = [](const Words& more, int status, const std::string& what) {
        const ProcessResult r = trireme(generate(more));
        EXPECT_EQ(r.status, status) << r.err;
        EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr(what)));
        EXPECT_EQ(r.out, "");
    };
    refused({"--spec", "draft"}, 64, "--spec draft: no draft model; give -md PATH");
    refused({"--spec", "draft", "-md", "/nowhere"}, 66, "/nowhere");
    EXPECT_THAT(trireme(generate({"-md", draft(), "--gamma", "9", "--tree-size", "9"})).err,
                testing::AllOf(HasSubstr("--model-draft has no effect here"), HasSubstr("--gamma has no effect here"),
                               HasSubstr("--tree-size has no effect here: only --spec tree reads it")));
    refused({"--spec", "tree", "--tree-size", "64"}, 78, "--tree-size '64'");
    refused({"--spec", "medusa"}, 78, "--spec 'medusa'");
    refused({"--spec", "draft+retrieval"}, 78, "--spec 'draft+retrieval'");
    refused({"--spec", "triforce"}, 64, "--spec draft+retrieval+full: no draft model; give -md PATH");
    refused({"--spec", "retrieval", "--chunk-size", "24"}, 78, "--chunk-size 24: want a power of two from 1 to 256");
    refused({"--spec", "retrieval", "--reselect", "often"}, 78, "--reselect 'often': want every, never or");
    refused({"--spec", "draft", "-md", data("tiny/dynamic-across")}, 78,
            "its vocabulary has 160 tokens, the model's 1024");
}

}  // namespace
}  // namespace trireme::test
