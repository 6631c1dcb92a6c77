// --spec: the tokens of plain decoding, whoever proposes; what reports say; what is refused.

#include <algorithm>
#include <numeric>

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

const char* const kPrompt = "And God said, Let there be light: and there was light. And God saw the light";

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
                               {"--spec", "draft", "-md", draft(), "--gamma", "12", "--draft-window", "128"}}) {
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
    for (const Words& chain : {Words{"--spec", "ngram"}, {"--spec", "window"}, {"--spec", "draft", "-md", draft()}}) {
        const ProcessResult r = trireme_on(2, generate(chain));
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(r.out, plain);
    }
}

TEST(SpeculationCommand, SamplesBeginAlike) {
    const Words sampled = {"--spec", "draft", "-md", draft(), "--temp", "0.8", "--num-samples", "3"};
    const ProcessResult r = trireme(generate(sampled)), again = trireme(generate(sampled));
    EXPECT_EQ(r.out, again.out);
    EXPECT_THAT(lines_of(r.out), SizeIs(3));
    Words one = sampled;
    one.back() = "1";
    EXPECT_EQ(trireme(generate(one)).out, lines_of(r.out)[0] + "\n");
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
    for (const auto& [name, sum] : {std::pair("proposed", proposed), std::pair("accepted", accepted)}) {
        const std::vector<int64_t> by_round = level[std::string(name) + "_by_round"];
        EXPECT_EQ(static_cast<int64_t>(by_round.size()), rounds);
        EXPECT_EQ(std::accumulate(by_round.begin(), by_round.end(), int64_t{0}), sum);
        EXPECT_LE(*std::max_element(by_round.begin(), by_round.end()), 4);
    }
    EXPECT_GT(level["draft_ms"], 0);
    EXPECT_GT(level["verify_ms"], 0);
    EXPECT_DOUBLE_EQ(level["accept_rate"], static_cast<double>(accepted) / static_cast<double>(proposed));
    EXPECT_EQ(json::parse(trireme(generate({"--report-json", "-"})).out)["speculation"], json::array());
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
    EXPECT_THAT(trireme(generate({"-md", draft(), "--gamma", "9"})).err,
                testing::AllOf(HasSubstr("--model-draft has no effect here"), HasSubstr("--gamma has no effect here")));
    refused({"--spec", "medusa"}, 78, "--spec 'medusa'");
    refused({"--spec", "draft", "-md", data("tiny/dynamic-across")}, 78,
            "its vocabulary has 160 tokens, the model's 1024");
}

}  // namespace
}  // namespace trireme::test
