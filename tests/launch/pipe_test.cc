// trireme pipe: answers are those of batch and score, in order, and an error is the answer of its own request.

#include <cmath>
#include <map>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "decode/score.h"
#include "launch/run/line_reader.h"
#include "tests/launch/batch_files.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Answers of one run; the first is the greeting.
std::vector<Json> answers(const ProcessResult& r) {
    EXPECT_EQ(r.status, 0) << r.err;
    std::vector<Json> all;
    for (const std::string& line : lines_of(r.out)) all.push_back(Json::parse(line));
    for (Json& a : all) a.erase("seconds");
    return all;
}

ProcessOptions with_lines(const std::vector<Json>& requests) {
    return {.input = as_lines(requests)};
}

std::vector<Json> piped(const std::vector<Json>& requests, const Words& more = {}, int ranks = 1) {
    const Words words = Words{"pipe", "-m", model(), "--temp", "0", "-t", "1"} + more;
    std::vector<Json> all = answers(ranks == 1 ? trireme_process(words, with_lines(requests))
                                               : trireme_on(ranks, words, with_lines(requests)));
    EXPECT_FALSE(all.empty());
    if (!all.empty()) all.erase(all.begin());
    return all;
}

TEST(Pipe, GreetsWithTheModelsFacts) {
    const std::vector<Json> all = answers(trireme_process({"pipe", "-m", model(), "-t", "1"}, with_lines({})));
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all[0], (Json{{"model", model()}, {"context", 2048}, {"vocab", 1024}, {"bos", "<s>"}, {"eos", "</s>"}}));
}

TEST(Pipe, ContinuesAsBatchDoes) {
    const std::vector<Json> asked = requests(7);
    const BatchFiles files(asked);
    ASSERT_EQ(trireme(files.command()).status, 0);
    const std::vector<Json> results = files.results();
    for (const Words& more : {Words{}, {"--parallel", "3"}, {"--spec", "ngram"}, {"-c", "300"}}) {
        const std::vector<Json> all = piped(asked, more);
        ASSERT_EQ(all.size(), asked.size());
        for (size_t i = 0; i < all.size(); ++i) {
            const Json& batch = results[i]["result"];
            EXPECT_EQ(all[i], (Json{{"index", i},
                                    {"text", batch["choices"][0]["text"]},
                                    {"finish_reason", batch["choices"][0]["finish_reason"]},
                                    {"prompt_tokens", batch["prompt_tokens"]},
                                    {"completion_tokens", batch["completion_tokens"]}}));
        }
    }
    EXPECT_EQ(piped(asked, {}, 2), piped(asked));
}

// Groups of one kind after groups of another use the same model, also when a longer request makes it grow.
TEST(Pipe, MixesContinuationsAndScores) {
    const Json pair = {{"context", "In the beginning God created"}, {"continuation", " the heaven and the earth."}};
    const Json other = {{"context", "In the beginning God created"}, {"continuation", " man."}};
    const Json text = {{"prompt", "And God said, Let there be"}, {"max_tokens", 6}};
    std::string verses = read_file(data("texts/kjv_12k.txt"));
    const Json longer = {{"prompt", verses.substr(0, 4500)}, {"max_tokens", 4}};
    const auto alone = [](const Json& request) {
        Json answer = piped({request}).at(0);
        answer.erase("index");
        return answer;
    };
    const std::vector<Json> asked = {pair, text, other, longer, pair, text};
    std::vector<Json> all = piped(asked);
    ASSERT_EQ(all.size(), asked.size());
    for (size_t i = 0; i < all.size(); ++i) {
        EXPECT_EQ(all[i].at("index"), i);
        all[i].erase("index");
        EXPECT_EQ(all[i], alone(asked[i])) << i;
    }
}

TEST(Pipe, ScoresAsScoreDoes) {
    const Words lines = lines_of(read_file(data("scoring/pairs.jsonl")));
    std::vector<Json> asked;
    for (size_t i = 0; i < 40; ++i) asked.push_back(Json::parse(lines[i]));
    const Words policy = {"--kv-policy", "h2o", "--kv-window", "32"};
    for (const Words& more : {Words{}, policy}) {
        const ProcessResult r = trireme(
            Words{"score", "-m", model(), "--data", data("scoring/pairs.jsonl"), "--limit", "40", "-t", "1"} + more);
        const std::vector<Json> all = piped(asked, more);
        ASSERT_EQ(all.size(), asked.size());
        for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], Json::parse(lines_of(r.out).at(i))) << i;
    }
}

// Continuations of one context are branches of one forward.
TEST(Pipe, ScoresContinuationsOfOneContextAsAlone) {
    const std::string context = read_file(data("texts/kjv_12k.txt")).substr(0, 700);
    std::vector<Json> asked;
    for (const char* text : {" And the earth", " In", " and God saw the light, that it was good", " And the earth was",
                             " the waters which were under the firmament from the waters which were above", " And"}) {
        asked.push_back({{"context", context}, {"continuation", text}});
    }
    asked.push_back({{"context", context}, {"continuation", read_file(data("texts/kjv_12k.txt")).substr(700, 400)}});
    asked.push_back({{"context", context + " And"}, {"continuation", " God"}});
    const std::vector<Json> all = piped(asked);
    ASSERT_EQ(all.size(), asked.size());
    for (const Words& more : {Words{}, {"--kv-on-chip", "0"}}) {
        for (size_t i = 0; i < asked.size(); ++i) {
            Json alone = piped({asked[i]}, more).at(0);
            alone["index"] = i;
            EXPECT_EQ(all[i], alone) << i;
        }
    }
    EXPECT_EQ(piped(asked, {}, 2).at(1).at("greedy"), all[1].at("greedy"));
}

// The KV sets of a chain follow the sequence: scores read it from its beginning.
TEST(Pipe, ScoresUnderAChain) {
    const std::string verses = read_file(data("texts/kjv_12k.txt"));
    const std::vector<Json> asked = {{{"context", verses.substr(0, 900)}, {"continuation", verses.substr(900, 300)}},
                                     {{"prompt", verses.substr(0, 400)}, {"max_tokens", 5}},
                                     {{"context", verses.substr(0, 500)}, {"continuation", " And God"}},
                                     {{"context", verses.substr(0, 500)}, {"continuation", " light"}},
                                     {{"text", verses.substr(0, 700)}, {"window", 128}, {"stride", 128}}};
    const std::vector<Json> plain = piped(asked);
    for (const Words& chain : {Words{"--spec", "h2o", "--kv-window", "64"},
                               {"--spec", "retrieval", "--retrieval-budget", "64", "--retrieval-chunk", "8"},
                               {"--spec", "window"}}) {
        const std::vector<Json> all = piped(asked, chain);
        ASSERT_EQ(all.size(), asked.size());
        EXPECT_EQ(all[1], plain[1]);
        for (const size_t i : {0U, 2U, 3U, 4U}) {
            const double expected = plain[i].at("logprob");
            EXPECT_NEAR(all[i].at("logprob").get<double>(), expected, std::abs(expected) * 1e-4);
        }
    }
}

// A request may load the cache for its own prompt and seed; scores after it have theirs.
TEST(Pipe, ScoresUnderAPolicyDependOnNoOtherRequest) {
    const std::string verses = read_file(data("texts/kjv_12k.txt"));
    const Json pair = {{"context", verses.substr(0, 900)}, {"continuation", verses.substr(900, 60)}};
    const Json brief = {{"context", verses.substr(0, 150)}, {"continuation", " And God"}};
    const Json text = {{"text", verses.substr(0, 700)}, {"window", 128}};
    const Json seeded = {{"prompt", verses.substr(0, 200)}, {"max_tokens", 3}, {"seed", 7}};
    for (const Words& policy : {Words{"--kv-policy", "random", "--kv-window", "32", "--seed", "0"},
                                {"--kv-policy", "pyramidkv", "--kv-window", "40", "--kv-observe", "8"},
                                {"--kv-policy", "h2o", "--kv-window", "40", "--kv-chunk", "32"}}) {
        const std::vector<Json> all = piped({seeded, pair, brief, text}, policy);
        ASSERT_EQ(all.size(), 4U);
        size_t i = 1;
        for (const Json& alone : {pair, brief, text}) {
            Json answer = piped({alone}, policy).at(0);
            answer["index"] = i;
            EXPECT_EQ(all[i], answer) << policy[1] << " " << i;
            ++i;
        }
        const ProcessResult r =
            trireme(Words{"score", "-m", model(), "-p", verses.substr(0, 700), "--window", "128", "-t", "1"} + policy);
        EXPECT_EQ(all[3].at("logprob"), Json::parse(r.out).at("logprob")) << policy[1];
    }
    const Json refused = piped({text}, {"--kv-policy", "h2o", "--kv-window", "0.5"}).at(0);
    EXPECT_THAT(refused.value("error", ""), HasSubstr("fraction"));
}

TEST(Pipe, RefusesOnlyTheRequestThatHasAnError) {
    const std::string verses = read_file(data("texts/kjv_12k.txt"));
    const std::vector<Json> all = piped({{{"prompt", "And"}, {"max_tokens", 3}},
                                         {{"prompt", verses.substr(0, 800)}, {"max_tokens", 3}},
                                         {{"prompt", "God"}, {"max_tokens", 3}}},
                                        {"--kv-policy", "snapkv", "--kv-window", "0.5"});
    ASSERT_EQ(all.size(), 3U);
    std::map<size_t, Json> by_index;
    for (const Json& a : all) by_index[a.at("index")] = a;
    EXPECT_TRUE(by_index[0].contains("error"));
    EXPECT_EQ(by_index[1].at("completion_tokens"), 3);
    EXPECT_TRUE(by_index[2].contains("error"));
}

// The window of a text as long as the context: BOS, then the text with its own BOS (lm-evaluation-harness).
TEST(Pipe, ScoresTextsInWindows) {
    const std::string text = read_file(data("texts/kjv_12k.txt")).substr(0, 3000);
    const Json tokens = piped({{{"tokenize", text}}}).at(0).at("ids");
    const auto n = static_cast<int64_t>(tokens.size());
    const Json rolling = piped({{{"rolling", text}}}).at(0);
    EXPECT_EQ(rolling.at("tokens"), n);
    const Json windows = piped({{{"text", text}, {"window", 128}, {"stride", 64}}}).at(0);
    EXPECT_EQ(windows.at("tokens"), n - 1);
    const ProcessResult r =
        trireme({"score", "-m", model(), "-p", text, "--window", "128", "--stride", "64", "-t", "1"});
    EXPECT_EQ(windows.at("logprob"), Json::parse(r.out).at("logprob"));
    EXPECT_LT(piped({{{"rolling", text}}}, {"-c", "100"}).at(0).at("logprob"), rolling.at("logprob"));
}

// The example of lm-evaluation-harness (LM.loglikelihood_rolling): ten tokens after a prefix, four of context.
TEST(RollingWindows, AreThoseOfTheHarness) {
    const auto shown = [](int64_t tokens, int64_t context) {
        std::string all;
        for (const ScoreWindow& w : rolling_windows(tokens, context)) {
            all += fmt::format("{}-{} from {}; ", w.begin, w.end, w.first);
        }
        return all;
    };
    EXPECT_EQ(shown(11, 4), "0-5 from 1; 4-9 from 5; 6-11 from 9; ");
    EXPECT_EQ(shown(5, 4), "0-5 from 1; ");
    EXPECT_EQ(shown(6, 4), "0-5 from 1; 1-6 from 5; ");
    EXPECT_EQ(shown(3, 1), "0-2 from 1; 1-3 from 2; ");
    EXPECT_EQ(shown(1, 4), "");
}

TEST(Pipe, StreamsTheTextOfTheAnswer) {
    const Json request = {{"prompt", "And God said, Let there be"}, {"max_tokens", 12}, {"stream", true}};
    std::vector<Json> all = piped({request, request}, {"--parallel", "2"});
    std::vector<std::string> texts(2);
    size_t parts = 0;
    for (const Json& a : all) {
        if (!a.contains("delta")) continue;
        texts.at(a.at("index")) += a.at("delta").get<std::string>();
        ++parts;
    }
    EXPECT_GT(parts, 8U);
    EXPECT_EQ(all.back().at("text"), texts[1]);
    EXPECT_EQ(texts[0], texts[1]);
}

TEST(Pipe, AnswersErrorsAndContinues) {
    const ProcessResult r =
        trireme_process({"pipe", "-m", model(), "-t", "1", "--temp", "0", "-c", "64"},
                        {.input = "{\n\n[1]\n{}\n{\"prompt\":1}\n{\"context\":\"a\",\"continuation\":\"\"}\n"
                                  "{\"prompt\":\"x\",\"max_tokens\":0}\n{\"tokenize\":3}\n"
                                  "{\"render\":[{\"role\":\"user\",\"content\":\"x\"}]}\n"
                                  "{\"text\":\"In the beginning\",\"window\":65}\n"
                                  "{\"prompt\":\"In the beginning\",\"max_tokens\":2}"});
    const std::vector<Json> all = answers(r);
    ASSERT_EQ(all.size(), 11U);
    const auto error = [&](size_t i) { return all.at(i + 1).value("error", "none"); };
    EXPECT_THAT(error(0), HasSubstr("request 0"));
    EXPECT_THAT(error(1), HasSubstr("request 1: holds array"));
    EXPECT_THAT(error(2), HasSubstr("has none of prompt"));
    EXPECT_THAT(error(3), HasSubstr("prompt is number"));
    EXPECT_THAT(error(4), HasSubstr("the continuation has no tokens"));
    EXPECT_THAT(error(5), HasSubstr("max_tokens"));
    EXPECT_THAT(error(6), HasSubstr("tokenize is number"));
    EXPECT_THAT(error(7), HasSubstr("has no chat template"));
    EXPECT_THAT(error(8), HasSubstr("window"));
    EXPECT_EQ(all.at(10).at("completion_tokens"), 2);
}

TEST(Pipe, CutsAPromptOnTheLeft) {
    const std::string text = read_file(data("texts/kjv_12k.txt")).substr(0, 2000);
    const Json ids = piped({{{"tokenize", text}}}).at(0).at("ids");
    const Json cut = {{"prompt", text}, {"max_tokens", 8}, {"truncate_left", true}};
    const Json last = {{"input_ids", Json(ids.end() - 92, ids.end())}, {"max_tokens", 8}};
    const std::vector<Json> all = piped({cut, last, {{"prompt", text}, {"max_tokens", 8}}}, {"-c", "100"});
    EXPECT_EQ(all.at(0).at("prompt_tokens"), 92);
    EXPECT_EQ(all.at(0).at("text"), all.at(1).at("text"));
    EXPECT_THAT(all.at(2).at("error").get<std::string>(), HasSubstr("100"));
}

TEST(Pipe, EndsWithItsReader) {
    const ProcessResult r =
        run_process({"sh", "-c", "yes '{\"prompt\":\"And\",\"max_tokens\":3}' | \"$0\" pipe -m \"$1\" -t 1 | head -n 3",
                     TRIREME_PROGRAM, model()});
    EXPECT_EQ(lines_of(r.out).size(), 3U) << r.err;
    EXPECT_THAT(error_lines(r), ElementsAre());
}

TEST(LineReader, ReturnsWhatIsThere) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const auto send = [&](const std::string& text) {
        EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    };
    LineReader reader(ends[0], "here");
    const auto read = [&] {
        Words texts;
        for (const LineReader::Line& line : reader.read([] { return true; })) {
            texts.push_back(fmt::format("{} {}", line.number, line.text));
        }
        return texts;
    };
    send("one\r\n\n  \ntwo\nthr");
    EXPECT_THAT(read(), ElementsAre("1 one", "4 two"));
    send("ee\nfour");
    EXPECT_THAT(read(), ElementsAre("5 three"));
    EXPECT_THAT(reader.read([] { return false; }), testing::IsEmpty());
    ::close(ends[1]);
    EXPECT_THAT(read(), ElementsAre("6 four"));
    EXPECT_THAT(read(), testing::IsEmpty());
    ::close(ends[0]);
}

}  // namespace
}  // namespace trireme::test
