// Eviction in models whose layers share KV: --kv-policy, --spec h2o, and the configuration that streams texts of any
// length. tests/bounded.py compares the retained tokens with another implementation.

#include <algorithm>
#include <array>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "offload/evicting/policies.h"
#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string lckv() {
    return data("models/kjv-lckv");
}
Words words_of(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}
/// f32 throughout, one thread, greedy.
Words generate(const Words& more) {
    return words_of({"generate", "-m", lckv(), "-n", "60", "--temp", "0", "-t", "1", "--ignore-eos", "--dtype", "f32",
                     "-ctk", "f32", "-ctv", "f32"},
                    more);
}
Words continued(const Words& more) {
    return words_of(generate({"--print", "ids", "-p",
                              "And the LORD spake unto Moses, saying, Speak unto the children of Israel, and say unto "
                              "them, When ye come into the land which I give unto you, then shall the land keep a "
                              "sabbath unto the LORD."}),
                    more);
}

// Owners retain some tokens, and all layers that read an owner see the same tokens.
TEST(BoundedSharingCommand, GivesTheTokensOfAFullCacheWhileEverythingIsKept) {
    const Words exact = continued({"--passes", "exact"});
    const std::string plain = trireme(exact).out;
    for (const KvPolicy kind : evicting_policies()) {
        const std::string policy(name_of(kind));
        const ProcessResult r =
            trireme(words_of(exact, {"--kv-policy", policy, "--kv-window", "3000", "--kv-positions", "rolling"}));
        EXPECT_EQ(r.out, plain) << policy << r.err;
        EXPECT_THAT(r.err, HasSubstr("warning: --kv-window 3000: "));
    }
}

TEST(BoundedSharingCommand, DumpsWhatTheHeadsOfOwnersKeep) {
    const TempFolder folder;
    std::string first;
    for (const int ranks : {1, 2}) {
        const std::string path = folder / ("kept" + std::to_string(ranks));
        const Words words = continued({"--kv-policy", "h2o", "--kv-window", "24", "--kv-dump", path, "-n", "7"});
        const ProcessResult r = ranks == 1 ? trireme(words) : trireme_on(ranks, words);
        ASSERT_EQ(r.status, 0) << r.err;
        const Words lines = lines_of(read_file(path));
        ASSERT_EQ(lines.size(), 7U * 3 * 2);
        std::string kept;
        for (size_t i = 0; i < lines.size(); ++i) {
            const json line = json::parse(lines[i]);
            EXPECT_EQ(line.at("layer"), (std::array{0, 4, 5})[i / 2 % 3]);
            EXPECT_EQ(line.at("head"), i % 2);
            EXPECT_EQ(line.at("kept").size(), 24U);
            kept += line.at("kept").dump();
        }
        if (ranks == 1) first = kept;
        EXPECT_EQ(kept, first) << "two ranks keep others";
    }
}

// A proposer over heavy hitters changes no token, for every KV placement, and most of its proposals are accepted.
TEST(BoundedSharingCommand, ProposesByHeavyHitters) {
    const TempFolder folder;
    const std::string report = folder / "report.json";
    const std::string plain = trireme(continued({"--passes", "exact"})).out;
    for (const char* on_chip : {"all", "1", "0"}) {
        for (const int ranks : {1, 2}) {
            const Words words = continued({"--passes", "exact", "--spec", "h2o", "--kv-window", "32", "--gamma", "4",
                                           "--kv-on-chip", on_chip, "--report-json", report, "--force"});
            const ProcessResult r = ranks == 1 ? trireme(words) : trireme_on(ranks, words);
            EXPECT_EQ(r.out, plain) << on_chip << " " << ranks << r.err;
            EXPECT_GT(json::parse(read_file(report)).at("speculation")[0].at("accept_rate"), 0.5);
        }
    }
}

TEST(BoundedSharingCommand, ContinuesTurnByTurn) {
    const TempFolder folder;
    const std::string path = folder / "turns.jsonl";
    std::ofstream turns(path);
    for (int i = 0; i < 12; ++i) turns << json({{"text", "And God said, Let there be light"}}).dump() << "\n";
    turns.close();
    const Words session = generate({"-n", "9", "--session", path, "--report-json", "-"});
    const json full = json::parse(trireme(session).out).at("turns");
    for (const char* policy : {"h2o", "streaming", "snapkv"}) {
        const Words words = words_of(
            session, {"--kv-policy", policy, "--kv-window", "64", "--kv-observe", "40", "--kv-positions", "rolling"});
        const ProcessResult r = trireme(words);
        ASSERT_EQ(r.status, 0) << r.err;
        const json one = json::parse(r.out).at("turns"), two = json::parse(trireme_on(2, words).out).at("turns");
        ASSERT_EQ(one.size(), 12U);
        EXPECT_EQ(one[0].at("text"), full[0].at("text"));
        for (size_t i = 0; i < one.size(); ++i) {
            EXPECT_EQ(one[i].at("text"), two[i].at("text")) << policy << " " << i;
            EXPECT_LE(one[i].at("kv_tokens"), 64);
        }
        EXPECT_GT(one[11].at("length"), 200);
    }
}

// A request of a batch, or a later sample, has the tokens that it has alone.
TEST(BoundedSharingCommand, StartsEveryDocumentAgain) {
    const TempFolder folder;
    const std::string input = folder / "prompts.jsonl", output = folder / "results.jsonl";
    std::ofstream file(input);
    const Words prompts = {"And God said, Let there be light: and there was light.", "In the beginning",
                           "And the LORD spake unto Moses, saying, Speak unto the children of Israel"};
    for (const std::string& p : prompts) file << json({{"prompt", p}}).dump() << "\n";
    file.close();
    const Words some = {"--kv-policy", "h2o", "--kv-window", "16", "--kv-positions", "rolling"};
    const Words batch = {"batch", "-m", lckv(), "--input",      input,     "-o",  output, "-n",  "20",   "--temp",
                         "0",     "-t", "1",    "--ignore-eos", "--dtype", "f32", "-ctk", "f32", "-ctv", "f32"};
    ASSERT_EQ(trireme(words_of(batch, some)).status, 0);
    const Words results = lines_of(read_file(output));
    ASSERT_EQ(results.size(), prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
        const Words alone = words_of(generate({"-n", "20", "-p", prompts[i]}), some);
        EXPECT_EQ(json::parse(results[i]).at("/result/choices/0/text"_json_pointer).get<std::string>(),
                  trireme(alone).out)
            << i;
    }
    const Words drawn = words_of(continued({"--temp", "0.8", "--seed", "5"}), some);
    const std::string one = trireme(drawn).out, three = trireme(words_of(drawn, {"--num-samples", "3"})).out;
    EXPECT_EQ(three.substr(0, one.size()), one);
    EXPECT_EQ(std::count(three.begin(), three.end(), '\n'), 3);
}

TEST(BoundedSharingCommand, IsPlannedAndMeasured) {
    const ProcessResult plan = trireme({"plan", "-m", lckv(), "-c", "100000", "--device-memory", "1G", "--device-gbps",
                                        "100", "--kv-policy", "streaming", "--kv-window", "512"});
    EXPECT_EQ(plan.status, 0) << plan.err;
    EXPECT_THAT(plan.out, HasSubstr("KV policy streaming: 512 tokens"));
    const ProcessResult bench = trireme({"bench",
                                         "-m",
                                         lckv(),
                                         "-f",
                                         data("texts/kjv_12k.txt"),
                                         "--prefill",
                                         "300",
                                         "-n",
                                         "8",
                                         "-r",
                                         "1",
                                         "-t",
                                         "1",
                                         "--temp",
                                         "0",
                                         "-o",
                                         "json",
                                         "--modes",
                                         "none,h2o,streaming,adakv,h2o+full",
                                         "--kv-window",
                                         "96"});
    ASSERT_EQ(bench.status, 0) << bench.err;
    EXPECT_EQ(json::parse(bench.out).size(), 5U);
    EXPECT_EQ(json::parse(bench.out)[4].at("exact"), true);
}

// A sliding-window layer would need to know which retained tokens are the last ones of the sequence.
TEST(BoundedSharingCommand, RefusesLayersOfTheLastTokens) {
    for (const Words& more : {Words{"--kv-policy", "h2o"}, {"--kv-policy", "streaming"}, {"--spec", "h2o"}}) {
        const ProcessResult r = trireme(words_of(continued({"--layer-map", "0_4_4s_4_4_5"}), more));
        EXPECT_EQ(r.status, 65);
        EXPECT_EQ(error_lines(r).size(), 1U) << r.err;
        EXPECT_THAT(r.err, testing::AllOf(HasSubstr("layer 2 "), HasSubstr(" 4096 tokens "),
                                          HasSubstr(more[0] + " " + more[1])));
        EXPECT_TRUE(r.out.empty());
    }
}

// A text of 2,929 tokens, which is longer than the model's context. Tokens of a chunk see more than tokens that are
// read one by one, so perplexities may differ by 2 %. A full cache is worse: the model has never seen its positions.
TEST(BoundedSharingCommand, StreamsTextsOfAnyLength) {
    const auto perplexity = [](const Words& more) {
        const ProcessResult r =
            trireme(words_of({"score", "-m", lckv(), "-t", "1", "-f", data("texts/kjv_2000_tokens.txt")}, more));
        EXPECT_EQ(r.status, 0) << r.err;
        return json::parse(r.out).at("perplexity").get<double>();
    };
    const std::string config = TRIREME_CONFIGS "/lckv-stream.ini";
    const double stream = perplexity({"--config", config});
    const double steps = perplexity({"--config", config, "--kv-chunk", "0"});
    EXPECT_NEAR(stream, steps, 0.02 * steps);
    EXPECT_NEAR(perplexity({"--config", config, "--kv-chunk", "1"}), steps, 1e-3 * steps);
    EXPECT_LT(stream, perplexity({"-c", "5000"}));
}

}  // namespace
}  // namespace trireme::test
