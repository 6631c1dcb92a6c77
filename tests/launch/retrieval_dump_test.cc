// --kv-dump of a chain with retrieval: the chunks of the sequence that each KV head sees, by round.

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;

constexpr int64_t kChunk = 8, kBudget = 64, kRecentTokens = 256;

/// A prompt that is some hundred tokens longer than the tokens that are always seen.
const std::string kLongPrompt = [] {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "And God said, Let there be light: and there was light. ";
    return text + "And God saw the light";
}();

struct Dump {
    std::vector<json> lines;
    std::string out;
};

Dump dump_of(const Words& more, int ranks = 1, int64_t budget = kBudget, const char* gamma = "3") {
    const TempFolder folder;
    const std::string path = folder / "chosen.jsonl";
    Words words = {"generate",
                   "-m",
                   model(),
                   "-p",
                   kLongPrompt,
                   "-n",
                   "30",
                   "--temp",
                   "0",
                   "-t",
                   "1",
                   "--budget",
                   std::to_string(budget),
                   "--ignore-eos",
                   "--print",
                   "ids",
                   "--gamma",
                   gamma,
                   "--dtype",
                   "f32",
                   "--kv-cache-dtype",
                   "f32",
                   "--kv-dump",
                   path};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult r = ranks == 1 ? trireme(words) : trireme_on(ranks, words);
    EXPECT_EQ(r.status, 0) << r.err;
    Dump dump = {.lines = {}, .out = r.out};
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) dump.lines.push_back(json::parse(line));
    return dump;
}

TEST(RetrievalDump, WritesTheChunksOfEveryRoundLayerAndHead) {
    const Words triforce = {"--spec", "triforce", "-md", data("models/kjv-draft"), "--gamma-inner", "2"};
    for (const Words& chain : {Words{"--spec", "retrieval"}, triforce}) {
        const Dump one = dump_of(chain);
        ASSERT_FALSE(one.lines.empty());
        const auto layers = one.lines.back().at("layer").get<size_t>() + 1,
                   heads = one.lines.back().at("head").get<size_t>() + 1;
        ASSERT_EQ(one.lines.size() % (layers * heads), 0U);
        int64_t text = 0, round = -1;
        for (size_t i = 0; i < one.lines.size(); ++i) {
            const json& line = one.lines[i];
            EXPECT_EQ(line.at("layer"), i / heads % layers);
            EXPECT_EQ(line.at("head"), i % heads);
            if (i % (layers * heads) == 0) {
                EXPECT_GT(line.at("round"), round);
                EXPECT_GE(line.at("tokens"), text);
            }
            round = line.at("round");
            text = line.at("tokens");
            EXPECT_EQ(line.at("chunk_size"), kChunk);
            EXPECT_EQ(line.at("candidates"), (text - kRecentTokens) / kChunk);
            const auto chunks = line.at("chunks").get<std::vector<int64_t>>();
            EXPECT_EQ(std::ssize(chunks), kBudget / kChunk);
            EXPECT_EQ(chunks.at(0), 0) << "the first chunk is always seen: " << line;
            EXPECT_TRUE(std::ranges::is_sorted(chunks));
            EXPECT_LT(chunks.back(), line.at("candidates"));
        }
        EXPECT_EQ(one.lines.front().at("round"), 0);
        EXPECT_GT(round, 3);

        const Dump two = dump_of(chain, 2);
        EXPECT_EQ(two.lines, one.lines);
        EXPECT_EQ(two.out, one.out);
    }
}

TEST(RetrievalDump, HasLinesOfRoundsThatChose) {
    for (const json& line : dump_of({"--spec", "retrieval", "--reselect", "never"}).lines)
        EXPECT_EQ(line.at("round"), 0);

    std::vector<int64_t> rounds;
    for (const json& line : dump_of({"--spec", "retrieval", "--reselect", "3"}).lines) {
        const auto round = line.at("round").get<int64_t>();
        if (rounds.empty() || rounds.back() != round) rounds.push_back(round);
    }
    ASSERT_GT(rounds.size(), 2U);
    for (size_t i = 2; i < rounds.size(); ++i) EXPECT_EQ(rounds[i] - rounds[i - 1], 3);
}

// A budget that holds all candidates selects all of them.
TEST(RetrievalDump, HasEveryChunkWhereTheBudgetHoldsThem) {
    for (const json& line : dump_of({"--spec", "retrieval"}, 1, 4096).lines) {
        EXPECT_EQ(line.at("chunks").size(), line.at("candidates"));
    }
}

// Measuring the costs of a chain runs forwards after the prompt, and these also select chunks.
TEST(RetrievalDump, LeavesOutAWarmUp) {
    const Dump fixed = dump_of({"--spec", "retrieval"});
    const Dump measured = dump_of({"--spec", "retrieval"}, 1, kBudget, "auto");
    const size_t of_prompt =
        static_cast<size_t>(std::ranges::count_if(fixed.lines, [](const json& line) { return line.at("round") == 0; }));
    ASSERT_GE(measured.lines.size(), of_prompt);
    for (size_t i = 0; i < of_prompt; ++i) EXPECT_EQ(measured.lines[i], fixed.lines[i]);
    for (size_t i = of_prompt; i < measured.lines.size(); ++i) {
        EXPECT_GT(measured.lines[i].at("round"), 1) << "a first token chooses nothing";
    }
}

}  // namespace
}  // namespace trireme::test
