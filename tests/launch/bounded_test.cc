// --kv-policy: logs, reports, dumps and refusals. tests/bounded.py compares the retained tokens with another
// implementation.

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "offload/evicting/policies.h"
#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kPrompt = [] {
    std::string text;
    for (int i = 0; i < 8; ++i) text += "And God said, Let there be light: and there was light. ";
    return text + "And God saw the light";
}();

Words words_of(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
}
Words generate(const Words& more) {
    return words_of({"generate", "-m", model(), "-p", kPrompt, "-n", "40", "--temp", "0", "-t", "1", "--print", "ids",
                     "--ignore-eos"},
                    more);
}

std::vector<json> lines_of(const std::filesystem::path& path) {
    std::vector<json> all;
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
    return all;
}

TEST(BoundedCommand, GivesTheTokensOfAFullCacheWhileEverythingIsKept) {
    const std::string full = trireme(generate({})).out;
    for (const KvPolicy kind : evicting_policies()) {
        const std::string policy(name_of(kind));
        const ProcessResult r = trireme(generate({"--kv-policy", policy, "--kv-window", "1000"}));
        EXPECT_EQ(r.out, full) << policy << r.err;
        EXPECT_THAT(r.err, HasSubstr("warning: --kv-window 1000: "));
    }
}

TEST(BoundedCommand, SaysWhatItKeeps) {
    const ProcessResult r = trireme(generate({"--kv-policy", "h2o", "--kv-window", "0.25", "--kv-sinks", "2"}));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, ContainsRegex("KV policy h2o: [0-9]+ tokens [^\n]*, [0-9]+ of [^\n]*, 2 the first [^\n]*, true "
                                     "positions"));
    EXPECT_THAT(trireme(generate({"--kv-policy", "pyramidkv", "--kv-window", "64", "--kv-observe", "16"})).err,
                HasSubstr("first layer to 19 "));
}

// The default number of sinks, 4, yields to a budget that has no room for them; a given number does not.
TEST(BoundedCommand, HasFewerSinksByDefaultInASmallBudget) {
    const Words streaming = {"--kv-policy", "streaming", "--kv-window", "4"};
    const ProcessResult r = trireme(generate(streaming));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr("3 the first"));
    EXPECT_EQ(trireme(words_of(generate(streaming), {"--kv-sinks", "4"})).status, 78);
}

TEST(BoundedCommand, TakesTheCookbooksNames) {
    const Words ours = {"--kv-policy", "h2o", "--kv-window", "48", "--kv-heavy", "20", "--kv-positions", "rolling"};
    const Words theirs = {"--enable_h2o_generation",  "--num_window_length", "48", "--num_heavy_hitter_tokens", "20",
                          "--enable_position_rolling"};
    const ProcessResult a = trireme(generate(ours)), b = trireme(generate(theirs));
    EXPECT_EQ(a.status, 0) << a.err;
    EXPECT_EQ(a.out, b.out);
    EXPECT_THAT(b.err, ContainsRegex("48 tokens [^\n]*, 28 of [^\n]*, positions rolling"));
}

TEST(BoundedCommand, SamplesBeginAlike) {
    const Words drawn = {"--kv-policy", "h2o", "--kv-window", "32", "--temp", "0.8", "--seed", "5"};
    const std::string three = trireme(words_of(generate(drawn), {"--num-samples", "3"})).out;
    const std::string one = trireme(generate(drawn)).out;
    EXPECT_EQ(three.substr(0, one.size()), one);
    EXPECT_EQ(std::count(three.begin(), three.end(), '\n'), 3);
}

TEST(BoundedCommand, DumpsWhatEachHeadKeeps) {
    const TempFolder folder;
    std::string first;
    for (const int ranks : {1, 2}) {
        const std::string path = fmt::format("{}/kept{}.jsonl", folder.path(), ranks);
        const Words asked = generate({"--kv-policy", "h2o", "--kv-window", "24", "--kv-dump", path, "--dtype", "f32",
                                      "--kv-cache-dtype", "f32"});
        const ProcessResult r = ranks == 1 ? trireme(asked) : trireme_on(ranks, asked);
        ASSERT_EQ(r.status, 0) << r.err;
        const std::vector<json> lines = lines_of(path);
        ASSERT_FALSE(lines.empty());
        const json last = lines.back();
        const auto layers = last.at("layer").get<size_t>() + 1, heads = last.at("head").get<size_t>() + 1;
        EXPECT_EQ(last.at("step"), 39);  // the last token is not computed
        ASSERT_EQ(lines.size(), 40 * layers * heads);
        std::string kept;
        for (size_t i = 0; i < lines.size(); ++i) {
            EXPECT_EQ(lines[i].at("step"), i / (layers * heads));
            EXPECT_EQ(lines[i].at("layer"), i / heads % layers);
            EXPECT_EQ(lines[i].at("head"), i % heads);
            EXPECT_EQ(lines[i].at("kept").size(), 24U);
            EXPECT_EQ(lines[i].at("scores").size(), 24U);
            kept += lines[i].at("kept").dump();
        }
        if (ranks == 1) first = kept;
        EXPECT_EQ(kept, first) << "two ranks keep others";
    }
}

// Lines are numbered by turn; step 0 is after the turn's prompt was read.
TEST(BoundedCommand, DumpsWhatEachHeadKeepsOfAConversation) {
    const TempFolder folder;
    std::ofstream(folder / "turns.jsonl") << R"({"prompt": "And God said, Let there be light"})"
                                          << "\n"
                                          << R"({"prompt": " and the earth was without form"})"
                                          << "\n";
    for (const int ranks : {1, 2}) {
        const std::string path = fmt::format("{}/kept{}.jsonl", folder.path(), ranks);
        const Words words = {
            "generate", "-m", model(),       "--session", folder / "turns.jsonl", "-n", "5",         "--temp", "0",
            "-t",       "1",  "--kv-policy", "h2o",       "--kv-window",          "12", "--kv-dump", path};
        const ProcessResult r = ranks == 1 ? trireme(words) : trireme_on(ranks, words);
        ASSERT_EQ(r.status, 0) << r.err;
        const std::vector<json> lines = lines_of(path);
        const auto layers = lines.back().at("layer").get<size_t>() + 1,
                   heads = lines.back().at("head").get<size_t>() + 1;
        ASSERT_EQ(lines.size(), 2 * 5 * layers * heads);  // a turn's last token is read with the next one
        for (size_t i = 0; i < lines.size(); ++i) {
            EXPECT_EQ(lines[i].at("turn"), i / (5 * layers * heads));
            EXPECT_EQ(lines[i].at("step"), i / (layers * heads) % 5);
            EXPECT_LE(lines[i].at("kept").size(), 12U);
        }
    }
}

TEST(BoundedCommand, ScoresTokenByTokenOrInChunks) {
    const auto perplexity = [](const Words& more) {
        const ProcessResult r = trireme(words_of({"score", "-m", model(), "-p", kPrompt, "-t", "1"}, more));
        EXPECT_EQ(r.status, 0) << r.err;
        return json::parse(r.out).at("perplexity").get<double>();
    };
    const double full = perplexity({});
    EXPECT_NEAR(perplexity({"--kv-policy", "h2o", "--kv-window", "500"}), full, 1e-3 * full);
    EXPECT_NEAR(perplexity({"--kv-policy", "h2o", "--kv-window", "500", "--kv-chunk", "50"}), full, 1e-3 * full);
    const double step = perplexity({"--kv-policy", "streaming", "--kv-window", "16"});
    EXPECT_GT(step, full);
    EXPECT_NEAR(perplexity({"--kv-policy", "streaming", "--kv-window", "16", "--kv-chunk", "1"}), step, 1e-3 * step);
}

std::string write_turns(const TempFolder& folder, int n) {
    const std::string path = folder.path() + "/turns.jsonl";
    std::ofstream out(path);
    out << R"({"prompt": "And God said, Let there be light"})"
        << "\n";
    for (int i = 1; i < n; ++i) {
        out << (i % 3 == 0 ? R"({"turns": ["Who was it?", "And then?"], "id": 7})" : R"({"text": " and the earth"})")
            << "\n\n";
    }
    return path;
}

TEST(BoundedCommand, ContinuesTurnByTurn) {
    const TempFolder folder;
    const std::string path = write_turns(folder, 30);
    const Words asked = {"generate", "-m", model(),        "--session",     path, "-n", "9", "--temp", "0",
                         "-t",       "1",  "--ignore-eos", "--report-json", "-"};
    const json plain = json::parse(trireme({"generate", "-m", model(), "-p", "And God said, Let there be light", "-n",
                                            "9", "--temp", "0", "-t", "1", "--ignore-eos", "--report-json", "-"})
                                       .out);
    for (const int ranks : {1, 2}) {
        const Words bounded = words_of(asked, {"--kv-policy", "h2o", "--kv-window", "64", "--kv-positions", "rolling",
                                               "--dtype", "f32", "--kv-cache-dtype", "f32"});
        const ProcessResult r = ranks == 1 ? trireme(bounded) : trireme_on(ranks, bounded);
        ASSERT_EQ(r.status, 0) << r.err;
        const json turns = json::parse(r.out).at("turns");
        ASSERT_EQ(turns.size(), 39U);  // nine lines have two turns
        EXPECT_EQ(turns[0].at("text"), plain.at("samples")[0].at("text"));
        for (const json& turn : turns) EXPECT_LE(turn.at("kv_tokens"), 64);
        EXPECT_EQ(turns[20].at("kv_bytes"), turns[38].at("kv_bytes"));
        EXPECT_GT(turns[38].at("length"), 39 * 10);
        EXPECT_THAT(r.err, HasSubstr("turn 39 of 39: "));
    }
    const ProcessResult full = trireme(asked);
    EXPECT_EQ(full.status, 0) << full.err;
    EXPECT_EQ(json::parse(full.out).at("turns")[0].at("text"), plain.at("samples")[0].at("text"));
    EXPECT_EQ(trireme(words_of(asked, {"--spec", "h2o"})).status, 64);
}

TEST(BoundedCommand, IsMeasuredWithTheFullCache) {
    const ProcessResult r =
        trireme({"bench", "-m", model(), "-p", kPrompt, "-n", "8", "-r", "2", "--modes", "none,h2o,streaming",
                 "--kv-window", "32", "--temp", "0", "-o", "json", "-t", "1"});
    ASSERT_EQ(r.status, 0) << r.err;
    const json rows = json::parse(r.out);
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(rows[1].at("mode"), "h2o");
    EXPECT_GT(rows[1].at("speedup"), 0);
    EXPECT_TRUE(rows[1].at("exact").is_null());
    EXPECT_THAT(r.err, Not(HasSubstr("not exact")));
}

TEST(BoundedCommand, IsPlanned) {
    const auto planned = [](const Words& more) {
        return trireme(words_of({"plan", "-m", model(), "--device-memory", "1G", "--host-memory", "1G", "--device-gbps",
                                 "100", "-c", "400000"},
                                more));
    };
    const ProcessResult h2o = planned({"--kv-policy", "h2o", "--kv-window", "512", "--kv-chunk", "256"});
    EXPECT_EQ(h2o.status, 0) << h2o.err;
    EXPECT_THAT(h2o.out, HasSubstr("KV policy h2o: 512 tokens"));
    const auto bytes = [](const std::string& text) {
        const size_t at = text.find("KV on chip");
        return at == std::string::npos ? std::string() : text.substr(at, text.find('\n', at) - at);
    };
    EXPECT_NE(bytes(h2o.out), bytes(planned({}).out)) << h2o.out;
    const ProcessResult chain = planned({"--spec", "h2o", "--kv-window", "512"});
    EXPECT_EQ(chain.status, 0) << chain.err;
    EXPECT_THAT(chain.out, HasSubstr("--spec h2o: 512 tokens"));
    EXPECT_THAT(chain.out, HasSubstr("heavy hitters"));
    EXPECT_THAT(chain.out, HasSubstr("prompt's hidden states"));  // prefill is layer by layer
    EXPECT_EQ(bytes(chain.out), bytes(planned({}).out)) << chain.out;
}

TEST(BoundedCommand, RefusesWhatContradictsItself) {
    struct Bad {
        Words words;
        int status;
        std::string says;
    };
    for (const Bad& bad :
         {Bad{{"--kv-policy", "h2o", "--kv-window", "32", "--kv-heavy", "32"}, 78, "--kv-heavy 32"},
          {{"--kv-policy", "h2o", "--kv-window", "32", "--kv-heavy", "4", "--kv-sinks", "5"}, 78, "--kv-sinks 5"},
          {{"--kv-policy", "snapkv", "--kv-window", "64"}, 78, "--kv-observe 64"},
          {{"--kv-policy", "snapkv", "--kv-window", "96", "--kv-pool", "4"}, 78, "--kv-pool 4"},
          {{"--kv-policy", "adakv", "--kv-window", "96", "--kv-heads-share", "layer"}, 64, "--kv-heads-share layer"},
          {{"--kv-policy", "knorm", "--kv-heads-share", "layer"}, 64, "--kv-policy knorm"},
          {{"--kv-policy", "lru"}, 78, "--kv-policy 'lru'"},
          {{"--kv-window", "1.5"}, 78, "--kv-window '1.5'"},
          {{"--kv-policy", "h2o", "--spec", "ngram"}, 64, "--spec ngram"},
          {{"--kv-policy", "h2o", "--spec", "h2o"}, 64, "--spec h2o"},
          {{"--spec", "h2o", "--kv-positions", "rolling"}, 64, "--kv-positions rolling"},
          {{"--spec", "h2o", "--kv-window", "32", "--kv-heavy", "32"}, 78, "--kv-heavy 32"},
          {{"--spec", "h2o", "--kv-window", "32", "--kv-heavy", "4", "--kv-sinks", "5"}, 78, "--kv-sinks 5"},
          {{"--kv-dump", "kept.jsonl"}, 78, "--kv-dump"}}) {
        const ProcessResult r = trireme(generate(bad.words));
        EXPECT_EQ(r.status, bad.status) << testing::PrintToString(bad.words) << r.err;
        EXPECT_THAT(r.err, HasSubstr(bad.says));
        EXPECT_TRUE(r.out.empty());
    }
    EXPECT_THAT(trireme(generate({"--kv-heads-share", "layer"})).err,
                HasSubstr("warning: --kv-heads-share " + kNoEffect));
    EXPECT_THAT(
        trireme(generate({"--kv-policy", "tova", "--kv-window", "32", "--kv-heavy", "4"})).err,
        ContainsRegex("warning: --kv-heavy " + kNoEffect + "[^\n]*--kv-policy h2o, knorm or keydiff, or --spec h2o "));
}

// A chain reads the same flags as the policy, except those that have no meaning there.
TEST(BoundedCommand, FlagsAreReadByAChainOfHeavyHitters) {
    const Words read = {"--spec",
                        "h2o",
                        "--kv-window",
                        "32",
                        "--kv-heavy",
                        "9",
                        "--kv-sinks",
                        "2",
                        "--kv-gqa",
                        "sum",
                        "--kv-decay",
                        "0.99",
                        "--kv-normalise",
                        "--kv-score-dtype",
                        "f16",
                        "--kv-heads-share",
                        "layer"};
    const ProcessResult r = trireme(generate(read));
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, Not(HasSubstr("warning: ")));
    EXPECT_THAT(r.err, ContainsRegex("--spec h2o: 32 tokens [^\n]*, 23 of [^\n]* all heads [^\n]*, 2 the first "));
    EXPECT_THAT(trireme(generate({"--spec", "h2o"})).err, HasSubstr("--spec h2o: 1024 tokens"));
    EXPECT_THAT(trireme(generate({"--spec", "h2o", "--kv-chunk", "16"})).err,
                HasSubstr("warning: --kv-chunk " + kNoEffect));
    EXPECT_THAT(trireme(generate({"--spec", "window", "--kv-window", "32"})).err,
                ContainsRegex("warning: --kv-window " + kNoEffect + "[^\n]*--kv-policy [^\n]*--spec h2o "));
    EXPECT_THAT(trireme({"bench", "-m", model(), "-p", kPrompt, "-n", "4", "-r", "1", "--modes", "none,h2o@2"}).err,
                HasSubstr("KV policy h2o: 2 tokens"));
    const ProcessResult bench = trireme(
        {"bench",         "-m",          model(), "-p",     kPrompt, "-n", "8",    "-r", "1", "--modes",
         "none,h2o+full", "--kv-window", "32",    "--temp", "0",     "-o", "json", "-t", "1", "--require-exact"});
    ASSERT_EQ(bench.status, 0) << bench.err;
    EXPECT_THAT(bench.err, Not(HasSubstr("warning: ")));
    EXPECT_EQ(json::parse(bench.out)[1].at("mode"), "h2o+full");
}

// The run that is resumed has dumped the steps so far.
TEST(BoundedCommand, AResumedDumpRepeatsNoStep) {
    const TempFolder folder;
    const Words flags = {"--kv-policy", "h2o", "--kv-window", "24", "--kv-dump"};
    const auto steps_of = [&](const Words& more, const std::string& dump) {
        const ProcessResult r = trireme(generate(words_of(words_of(flags, {folder / dump}), more)));
        EXPECT_EQ(r.status, 0) << r.err;
        std::vector<int64_t> steps;
        for (const json& line : lines_of(folder / dump)) {
            if (line.at("layer") == 0 && line.at("head") == 0) steps.push_back(line.at("step"));
        }
        return steps;
    };
    const std::vector<int64_t> all = steps_of({"--save-kv", folder / "s.h5", "--checkpoint-every", "16"}, "all.jsonl");
    ASSERT_EQ(all.size(), 40U);
    const std::vector<int64_t> rest = steps_of({"--load-kv", folder / "s.h5"}, "rest.jsonl");
    // The last snapshot has 32 tokens, of which 31 have been computed.
    EXPECT_EQ(rest, std::vector(all.begin() + 32, all.end()));
}

// Modes whose heads have scores of their own ignore the flag.
TEST(BoundedCommand, BenchUsesOneSetWhereAPolicyHasIt) {
    const ProcessResult r =
        trireme({"bench", "-m", model(), "-p", kPrompt, "-n", "4", "-r", "1", "--modes", "none,h2o,streaming,adakv",
                 "--kv-window", "70", "--kv-heads-share", "layer", "-t", "1", "-o", "json"});
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(json::parse(r.out).size(), 4U);
    EXPECT_THAT(r.err, Not(HasSubstr("warning: --kv-heads-share")));
}

}  // namespace
}  // namespace trireme::test
