// --spec: the tokens of plain decoding for every proposer; reports; refusals.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

// A prompt that is longer than the tokens that a retrieving level always sees in addition to its budget.
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
    for (const Words& chain :
         {Words{"--spec", "ngram"},
          {"--spec", "ngram", "--gamma", "1"},
          {"--spec", "suffix"},
          {"--spec", "suffix", "--gamma", "20", "--suffix-corpus", data("texts/kjv_12k.txt")},
          {"--spec", "suffix+retrieval+full", "--budget", "64", "--gamma", "20"},
          {"--spec", "window", "--draft-window", "128"},
          {"--spec", "window", "--draft-window", "128", "--gamma", "6"},
          {"--spec", "draft", "-md", draft()},
          {"--spec", "draft", "-md", draft(), "--gamma", "12", "--draft-window", "128"},
          {"--spec", "h2o", "--kv-window", "64"},
          {"--spec", "h2o", "--kv-window", "0.2", "--kv-heavy", "5", "--kv-gqa", "max", "--gamma", "7", "--kv-decay",
           "0.99", "--kv-normalise", "--kv-score-dtype", "f16", "--kv-sinks", "2"},
          {"--spec", "h2o+retrieval+full", "--budget", "64", "--kv-window", "32", "--gamma", "9"},
          {"--spec", "retrieval", "--budget", "64"},
          {"--spec", "retrieval", "--budget", "16", "--chunk-size", "1", "--reselect", "never"},
          {"--spec", "tree", "--budget", "64"},
          {"--spec", "tree", "--tree-size", "63", "--gamma", "9", "--budget", "16"},
          {"--spec", "triforce", "-md", draft(), "--budget", "32", "--reselect", "3"},
          {"--spec", "triforce", "-md", draft(), "--budget", "32", "--gamma", "15", "--siblings", "3"},
          {"--spec", "retrieval", "--budget", "16", "--gamma", "7", "--siblings", "7"},
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

// What an earlier run has written is proposed to a later one: it takes few rounds.
TEST(SpeculationCommand, ProposesWhatTheCorpusHas) {
    const TempFolder folder;
    write_file(folder / "in.jsonl", R"({"prompt": "And the LORD spake unto Moses, saying,", "max_tokens": 90})"
                                    "\n");
    const Words batch = {"batch", "-m", model(), "--temp", "0", "-t", "1", "--ignore-eos"};
    ASSERT_EQ(trireme(batch + Words{"--input", folder / "in.jsonl", "--output-path", folder / "out.jsonl"}).status, 0);
    const auto rounds = [&](const Words& more) {
        const ProcessResult r = trireme(Words{"generate", "-m", model(), "-p", "And the LORD spake unto Moses, saying,",
                                              "-n", "90", "--temp", "0", "-t", "1", "--ignore-eos", "--spec", "suffix",
                                              "--gamma", "63", "--report-json", "-"} +
                                        more);
        EXPECT_EQ(r.status, 0) << r.err;
        return json::parse(r.out).at("rounds").get<int>();
    };
    const int with = rounds({"--suffix-corpus", folder / "out.jsonl"});
    EXPECT_LE(with, 8);  // 1, 2, then drafts of 6, 20, 62 tokens
    EXPECT_LT(2 * with, rounds({}));

    // A run that continues without it, or with another one, says that its drafts differ.
    const Words first =
        generate({"--spec", "suffix", "--gamma", "9", "-n", "20", "--suffix-corpus", folder / "out.jsonl"});
    ASSERT_EQ(trireme(first + Words{"--save-kv", folder / "kept"}).status, 0);
    for (const Words& other : {Words{}, {"--suffix-corpus", data("texts/kjv_12k.txt")}}) {
        const ProcessResult r =
            trireme(generate({"--spec", "suffix", "--gamma", "9", "-n", "20", "--load-kv", folder / "kept"}) + other);
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_THAT(r.err, ContainsRegex("another run: corpus ids=.* .this run: ")) << r.err;
    }
    // What searches a folder does not write into it.
    const ProcessResult inside =
        trireme(batch + Words{"--input", folder / "in.jsonl", "--output-path", folder / "more.jsonl", "--spec",
                              "suffix", "--suffix-corpus", folder.path()});
    EXPECT_EQ(inside.status, 64) << inside.err;
    EXPECT_THAT(error_lines(inside), ElementsAre(HasSubstr("lies in the folder of --suffix-corpus")));

    for (const auto& [path, status] : {std::pair<std::string, int>{folder / "none.txt", 66}, {"-", 78}}) {
        const ProcessResult r = trireme(generate({"--spec", "suffix", "--suffix-corpus", path}));
        EXPECT_EQ(r.status, status) << r.err;
        EXPECT_THAT(error_lines(r), SizeIs(1)) << r.err;
    }
    EXPECT_THAT(trireme(generate({"--spec", "ngram", "--suffix-corpus", "x.txt"})).err,
                HasSubstr("--suffix-corpus " + kNoEffect));
}

/// A copy of a model whose vocabulary has more rows, like embeddings that are padded.
void write_padded(const std::string& from, const TempFolder& to, size_t more) {
    const std::string file = read_file(from + "/model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof length);
    const json header = json::parse(file.substr(sizeof length, length));
    json made = json::object();
    std::string data;
    for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") continue;
        const std::vector<size_t> range = entry.at("data_offsets");
        std::vector<size_t> shape = entry.at("shape");
        const size_t begin = data.size();
        data += file.substr(sizeof length + length + range[0], range[1] - range[0]);
        if (name == "model.embed_tokens.weight" || name == "lm_head.weight") {
            data.append((range[1] - range[0]) / shape[0] * more, '\0');
            shape[0] += more;
        }
        made[name] = {{"dtype", entry.at("dtype")}, {"shape", shape}, {"data_offsets", {begin, data.size()}}};
    }
    std::string text = made.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    length = text.size();
    write_file(to / "model.safetensors",
               std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data);
    json config = json::parse(read_file(from + "/config.json"));
    config["vocab_size"] = config["vocab_size"].get<size_t>() + more;
    write_file(to / "config.json", config.dump());
    write_file(to / "tokenizer.model", read_file(model() + "/tokenizer.model"));
}

TEST(SpeculationCommand, TakesADraftWhoseVocabularyIsPaddedOtherwise) {
    const TempFolder wide_draft, wide_target;
    write_padded(draft(), wide_draft, 64);
    write_padded(model(), wide_target, 128);
    const auto accepted = [](const Words& words) {
        const TempFolder folder;
        Words all = words;
        all.insert(all.end(), {"--report-json", folder / "r.json"});
        const ProcessResult r = trireme(all);
        EXPECT_EQ(r.status, 0) << r.err;
        const json report = json::parse(read_file(folder / "r.json"));
        return std::pair(r.out,
                         report["speculation"].empty() ? 0 : report["speculation"][0]["accepted"].get<int64_t>());
    };
    const auto with = [](const std::string& target, const std::string& proposing) {
        Words words = generate({"-md", proposing, "--spec", "draft", "--gamma", "4"});
        words[2] = target;
        return words;
    };
    Words plain = generate({});
    const std::string narrow = accepted(plain).first;
    const auto same = accepted(with(model(), draft())), more = accepted(with(model(), wide_draft.path()));
    EXPECT_EQ(more.first, narrow);
    EXPECT_EQ(more.second, same.second);  // padding of a draft is ignored
    plain[2] = wide_target.path();
    const std::string wide = accepted(plain).first;
    const auto fewer = accepted(with(wide_target.path(), draft()));
    EXPECT_EQ(fewer.first, wide);
    EXPECT_GT(fewer.second, same.second / 2);
}

TEST(SpeculationCommand, GivesThemOnTwoRanks) {
    const std::string plain = trireme_on(2, generate({})).out;
    for (const Words& chain : {Words{"--spec", "ngram"},
                               {"--spec", "window", "--gamma", "6"},
                               {"--spec", "draft", "-md", draft()},
                               {"--spec", "draft", "-md", draft(), "--gamma", "6"},
                               {"--spec", "h2o", "--kv-window", "48", "--gamma", "5", "--kv-on-chip", "3"},
                               {"--spec", "retrieval", "--budget", "64"},
                               {"--spec", "tree", "--budget", "64"},
                               {"--spec", "triforce", "-md", draft(), "--budget", "64", "--kv-on-chip", "2"}}) {
        const ProcessResult r = trireme_on(2, generate(chain));
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(r.out, plain);
    }
}

TEST(SpeculationCommand, SamplesBeginAlike) {
    for (const Words& chain : {Words{"--spec", "draft"},
                               {"--spec", "h2o", "--kv-window", "32"},
                               {"--spec", "tree", "--budget", "32"},
                               {"--spec", "triforce", "--budget", "32", "--gamma-inner", "2"}}) {
        Words sampled = {"-md", draft(), "--gamma", "6", "--temp", "0.8", "--num-samples", "3"};
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
    EXPECT_EQ(report["rounds"], rounds + 1);  // the prefill gives the first token
    EXPECT_GE(1 + rounds + accepted, 120);    // the last round may exceed the limit
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
    EXPECT_GT(level["alpha"],
              level["accept_rate"]);  // in chains of 4, tokens after a rejected one count as rejected
    EXPECT_FALSE(level.contains("draft_len"));
    EXPECT_EQ(report["spec_costs"], json::array());
    EXPECT_EQ(report["warmup_ms"], 0);
    EXPECT_EQ(json::parse(trireme(generate({"--report-json", "-"})).out)["speculation"], json::array());
}

// Measured costs differ between runs. With the costs of an earlier run, tokens, draft lengths and rounds are the same.
TEST(SpeculationCommand, TakesTheCostsOfAnEarlierRun) {
    const TempFolder folder;
    const Words sampled = {"--spec", "draft", "-md", draft(), "--temp", "0.8", "--num-samples", "2"};
    for (const int ranks : {1, 2}) {
        const auto run = [&](const Words& more) {
            Words words = sampled;
            words.insert(words.end(), more.begin(), more.end());
            words = generate(words);
            return ranks == 1 ? trireme(words) : trireme_on(ranks, words);
        };
        const std::string first_report = folder / fmt::format("{}.json", ranks);
        const ProcessResult first = run({"--report-json", first_report});
        ASSERT_EQ(first.status, 0) << first.err;
        EXPECT_THAT(first.err, testing::AllOf(HasSubstr("warm-up"), HasSubstr("; draft length ")));
        const json report = json::parse(read_file(first_report));
        const json costs = report["spec_costs"];
        ASSERT_THAT(costs, SizeIs(2));
        EXPECT_EQ(costs[0]["level"], "full");
        EXPECT_EQ(costs[1]["level"], "draft");
        EXPECT_EQ(costs[0]["rows"].size(), costs[0]["ms"].size());
        EXPECT_GT(report["warmup_ms"], 0);

        const std::string again_report = folder / fmt::format("again{}.json", ranks);
        const ProcessResult again = run({"--spec-costs", first_report, "--report-json", again_report});
        ASSERT_EQ(again.status, 0) << again.err;
        EXPECT_EQ(again.out, first.out);
        EXPECT_THAT(again.err, testing::Not(HasSubstr("warm-up")));
        const json replayed = json::parse(read_file(again_report));
        EXPECT_EQ(replayed["spec_costs"], costs);
        EXPECT_EQ(replayed["warmup_ms"], 0);
        const auto without_times = [](const json& whole) {
            json levels = whole["speculation"];
            for (json& level : levels) level.erase("draft_ms"), level.erase("verify_ms");
            return levels;
        };
        EXPECT_EQ(without_times(replayed), without_times(report));
    }
}

// With costs that are written by hand, proposals are long, or absent.
TEST(SpeculationCommand, GoesByTheCostsItIsGiven) {
    const TempFolder folder;
    const auto level_with = [&](const std::string& draft_ms) {
        write_file(folder / "costs.json", R"({"spec_costs": [{"level": "full", "rows": [1, 64], "ms": [50, 51.5]},)"
                                          R"( {"level": "draft", "rows": [1], "ms": [)" +
                                              draft_ms + "]}]}");
        const ProcessResult r = trireme(
            generate({"--spec", "draft", "-md", draft(), "--spec-costs", folder / "costs.json", "--report-json", "-"}));
        EXPECT_EQ(r.status, 0) << r.err;
        return json::parse(r.out)["speculation"][0];
    };
    const json cheap = level_with("0.5"), dear = level_with("500");
    EXPECT_GT(cheap["draft_len"], 2);
    EXPECT_EQ(cheap["rounds_off"], 0);
    EXPECT_EQ(dear["proposed"], 0);
    EXPECT_GT(dear["rounds_off"], 110);
}

TEST(SpeculationCommand, RefusesCostsThatAreNone) {
    const TempFolder folder;
    const auto refused = [&](const std::string& text, int status, const std::string& what) {
        write_file(folder / "costs.json", text);
        const ProcessResult r =
            trireme(generate({"--spec", "draft", "-md", draft(), "--spec-costs", folder / "costs.json"}));
        EXPECT_EQ(r.status, status) << r.err;
        EXPECT_THAT(error_lines(r), ElementsAre(ContainsRegex(what))) << text;
        EXPECT_EQ(r.out, "");
    };
    const auto costs = [](const std::string& levels) { return "{\"spec_costs\": [" + levels + "]}"; };
    const auto level = [](const std::string& name, const std::string& rows, const std::string& ms) {
        return fmt::format(R"({{"level": "{}", "rows": {}, "ms": {}}})", name, rows, ms);
    };
    const std::string full = level("full", "[1, 2]", "[5, 6]"), small = level("draft", "[1]", "[1]");
    refused("", 65, "costs.json: not valid JSON");
    refused(std::string(1000, '['), 65, "deeper than 64");
    refused("[]", 65, "no spec_costs; .*--spec and --gamma auto");
    refused("{\"spec_costs\": {}}", 65, "no spec_costs; ");
    refused(costs(""), 65, "no spec_costs; ");
    refused(costs(full), 65, "spec_costs of full, this .* full, draft");
    refused(costs(full + "," + level("window", "[1]", "[1]")), 65, "spec_costs of full, window, this ");
    refused(costs(full + "," + small + "," + small), 65, "spec_costs of full, draft, draft, this .* full, draft");
    refused(costs("7," + small), 65, "a level's name");
    for (const auto& [rows, ms] : {std::pair("[]", "[]"), std::pair("[1]", "[1, 2]"), std::pair("1", "1")}) {
        refused(costs(full + "," + level("draft", rows, ms)), 65, "rows and ms, equal");
    }
    for (const char* rows : {"[2]", "[0]", "[-1]", "[1.5]", "[\"1\"]"}) {
        refused(costs(full + "," + level("draft", rows, "[1]")), 65, "rows that begin with 1");
    }
    for (const char* rows : {"[1, 1]", "[1, 65]", "[1, 18446744073709551615]"}) {
        refused(costs(full + "," + level("draft", rows, "[1, 2]")), 65, "rows that begin with 1");
    }
    for (const char* ms : {"[0]", "[-1]", "[1e10]", "[null]"}) {
        refused(costs(full + "," + level("draft", "[1]", ms)), 65, "milliseconds above 0");
    }
    const ProcessResult gone = trireme(generate({"--spec", "ngram", "--spec-costs", folder / "gone.json"}));
    EXPECT_EQ(gone.status, 66);
    EXPECT_THAT(error_lines(gone), ElementsAre(HasSubstr("gone.json")));
    const ProcessResult unused = trireme(
        generate({"--spec", "ngram", "--gamma", "2", "--gamma-inner", "2", "--spec-costs", folder / "gone.json"}));
    EXPECT_EQ(unused.status, 0) << unused.err;
    EXPECT_THAT(unused.err,
                testing::AllOf(HasSubstr("--spec-costs " + kNoEffect), HasSubstr("--gamma-inner " + kNoEffect)));
    const ProcessResult length = trireme(generate({"--spec", "ngram", "--gamma", "64"}));
    EXPECT_EQ(length.status, 78);
    EXPECT_THAT(error_lines(length), ElementsAre(HasSubstr(" 1 to 63 or auto")));
}

TEST(SpeculationCommand, ATreeIsAsDeepAsGammaSays) {
    const TempFolder folder;
    const ProcessResult r = trireme(generate(
        {"--spec", "tree", "--budget", "64", "--gamma", "3", "--tree-size", "17", "--report-json", folder / "r.json"}));
    ASSERT_EQ(r.status, 0) << r.err;
    const json level = json::parse(read_file(folder / "r.json"))["speculation"][0];
    EXPECT_EQ(level["chain"], "tree+full");
    EXPECT_TRUE(level["alpha"].is_null());
    EXPECT_THAT(level["accept_rate_by_depth"], SizeIs(3));
    const int64_t rounds = level["rounds"], proposed = level["proposed"];
    EXPECT_GT(proposed, 16 * (rounds - 2));  // the last rounds may have less room
    EXPECT_LE(proposed, 17 * rounds);
}

TEST(SpeculationCommand, RefusesADraftThatIsNone) {
    const auto refused = [](const Words& more, int status, const std::string& what) {
        const ProcessResult r = trireme(generate(more));
        EXPECT_EQ(r.status, status) << r.err;
        EXPECT_THAT(error_lines(r), ElementsAre(ContainsRegex(what)));
        EXPECT_EQ(r.out, "");
    };
    refused({"--spec", "draft"}, 64, "--spec draft: .*-md PATH");
    refused({"--spec", "draft", "-md", "/nowhere"}, 66, "/nowhere");
    EXPECT_THAT(trireme(generate({"-md", draft(), "--gamma", "9", "--tree-size", "9"})).err,
                testing::AllOf(HasSubstr("--model-draft " + kNoEffect), HasSubstr("--gamma " + kNoEffect),
                               ContainsRegex("--tree-size " + kNoEffect + "[^\n]*--spec tree")));
    refused({"--spec", "tree", "--tree-size", "64"}, 78, "--tree-size '64'");
    refused({"--spec", "draft", "-md", draft(), "--siblings", "8"}, 78, "--siblings '8'");
    EXPECT_THAT(trireme(generate({"--spec", "tree", "--siblings", "2"})).err, HasSubstr("--siblings " + kNoEffect));
    refused({"--spec", "medusa"}, 78, "--spec 'medusa'");
    refused({"--spec", "draft+retrieval"}, 78, "--spec 'draft[+]retrieval'");
    refused({"--spec", "triforce"}, 64, "--spec draft[+]retrieval[+]full: .*-md PATH");
    refused({"--spec", "retrieval", "--chunk-size", "24"}, 78, "--chunk-size 24: .* 1 to 256");
    refused({"--spec", "retrieval", "--budget", "7"}, 78, "--retrieval-budget 7: .* 8 tokens");
    refused({"--spec", "retrieval", "--reselect", "often"}, 78, "--reselect 'often': .*every, never");
    refused({"--spec", "draft", "-md", data("tiny/dynamic-across")}, 78, " 160 tokens, .* 1024");
}

}  // namespace
}  // namespace trireme::test
