// Models whose layers share KV: generate, score, plan and convert; scores of pairs.

#include <cmath>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;

const std::string kPrompt =
    "And the LORD spake unto Moses, saying, Speak unto the children of Israel, and say unto them, When ye come into "
    "the "
    "land which I give unto you, then shall the land keep a sabbath unto the LORD.";

std::string lckv() {
    return data("models/kjv-lckv");
}
Words generate(const std::string& model, const Words& more) {
    Words words = {"generate", "-m",      model, "-p",           kPrompt,   "-n",  "60",   "--temp", "0",    "-t",
                   "1",        "--print", "ids", "--ignore-eos", "--dtype", "f32", "-ctk", "f32",    "-ctv", "f32"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}
json score(const std::string& model, const Words& more) {
    Words words = {"score", "-m",      model, "-p",   kPrompt, "-o",   "-",  "-t",
                   "1",     "--dtype", "f32", "-ctk", "f32",   "-ctv", "f32"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult r = trireme(words);
    EXPECT_EQ(r.status, 0) << r.err;
    return json::parse(r.out);
}

// KV placement, the number of ranks and the proposer do not change the tokens.
TEST(SharingCommand, GivesTheSameTokensHoweverItRuns) {
    const ProcessResult plain = trireme(generate(lckv(), {"--passes", "exact"}));
    ASSERT_EQ(plain.status, 0) << plain.err;
    EXPECT_THAT(plain.err, ContainsRegex("0_4_4_4_4_5: 3 of 6 [^\n]* layers 1-4 until nothing "));
    EXPECT_EQ(trireme(generate(lckv(), {"--passes", "1000"})).out, plain.out);
    EXPECT_EQ(trireme(generate(lckv(), {"--passes", "exact", "--kv-on-chip", "0"})).out, plain.out);
    EXPECT_EQ(trireme(generate(lckv(), {"--passes", "exact", "--kv-on-chip", "1"})).out, plain.out);
    for (const int ranks : {2, 3}) {
        EXPECT_EQ(trireme_on(ranks, generate(lckv(), {"--passes", "exact"})).out, plain.out) << ranks;
    }
    for (const Words& chain : {Words{"--spec", "draft", "--gamma", "4", "-md", data("models/kjv-draft")},
                               {"--spec", "ngram", "--gamma", "3"},
                               {"--spec", "retrieval", "--retrieval-budget", "64", "--gamma", "5"},
                               {"--spec", "draft", "--gamma", "auto", "-md", data("models/kjv-draft")},
                               {"--spec", "triforce", "--retrieval-budget", "64", "-md", data("models/kjv-draft")}}) {
        for (const char* on_chip : {"all", "1"}) {
            Words more = {"--passes", "exact", "--kv-on-chip", on_chip};
            more.insert(more.end(), chain.begin(), chain.end());
            const ProcessResult r = trireme(generate(lckv(), more));
            EXPECT_EQ(r.out, plain.out) << chain[1] << " " << on_chip << r.err;
        }
    }
}

TEST(SharingCommand, ReportsItsPasses) {
    for (const auto& [passes, least, most] :
         {std::tuple{"config", 9, 9}, {"3", 3, 3}, {"exact", 10, 60}, {"auto", 3, 30}}) {
        const ProcessResult r = trireme(generate(lckv(), {"--passes", passes, "--report-json", "-"}));
        ASSERT_EQ(r.status, 0) << r.err;
        const int took = json::parse(r.out)["passes"];
        EXPECT_GE(took, least) << passes;
        EXPECT_LE(took, most) << passes;
    }
    EXPECT_THAT(trireme(generate(lckv(), {"--passes", "0"})).err, HasSubstr("--passes '0'"));
    EXPECT_EQ(trireme(generate(lckv(), {"--passes", "often"})).status, 78);
    // If no layer reads a later one, there is one pass, whatever --passes requests.
    EXPECT_EQ(trireme(generate(model(), {"--passes", "7"})).out, trireme(generate(model(), {})).out);
}

TEST(SharingCommand, RefusesMapsThatAreNone) {
    const auto refused = [](const std::string& map, const std::string& part) {
        const ProcessResult r = trireme(generate(model(), {"--layer-map", map}));
        EXPECT_EQ(r.status, 65) << map;
        EXPECT_EQ(error_lines(r).size(), 1u) << r.err;
        EXPECT_THAT(r.err, ContainsRegex(part));
    };
    refused("0_1_2", " 3 layers, .* 6");
    refused("0_1_2_3_4_6", " 0 to 5");
    refused("0s_0_2_3_4_5", "layer 1 .* layer 0");
    // This map makes owners of layers without K and V weights.
    const ProcessResult r = trireme(generate(lckv(), {"--layer-map", "0_1_2_3_4_5"}));
    EXPECT_EQ(r.status, 65);
    EXPECT_THAT(r.err, HasSubstr("model.layers.1.self_attn.k_proj.weight"));
}

// The converted config names the layer map and the weights follow transformers' names, with means if requested.
TEST(SharingCommand, ConvertsAndReadsAgain) {
    const TempFolder folder;
    for (const char* map : {"0_4_4_4_4_5", "0_0_2_2_4_4", "0_1_2_3_4_5"}) {
        const std::string out = folder / ("converted_" + std::string(map));
        const ProcessResult r = trireme({"convert", "-m", model(), "-o", out, "--layer-map", map});
        ASSERT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(score(out, {})["logprobs"], score(model(), {"--layer-map", map})["logprobs"]) << map;
    }
    const json config = json::parse(std::ifstream(folder / "converted_0_4_4_4_4_5/config.json"));
    EXPECT_EQ(config["model_type"], "lckv-llama");
    EXPECT_EQ(config["layer_types"], "0_4_4_4_4_5");
    EXPECT_EQ(config["forward_passes"].get<int>() + config["backward_passes"].get<int>(), 9);
    EXPECT_EQ(json::parse(std::ifstream(folder / "converted_0_1_2_3_4_5/config.json"))["model_type"], "llama");

    const std::string mean = folder / "mean";
    ASSERT_EQ(trireme({"convert", "-m", model(), "-o", mean, "--layer-map", "0_4_4_4_4_5", "--average"}).status, 0);
    EXPECT_NE(score(mean, {})["logprobs"], score(model(), {"--layer-map", "0_4_4_4_4_5"})["logprobs"]);

    const ProcessResult again = trireme({"convert", "-m", model(), "-o", mean});
    EXPECT_EQ(again.status, 73);
    EXPECT_THAT(again.err, HasSubstr(mean + ": exists"));
    EXPECT_EQ(trireme({"convert", "-m", model(), "-o", folder / "no/such"}).status, 73);
    EXPECT_EQ(trireme({"convert", "-m", model()}).status, 64);
    EXPECT_EQ(trireme({"convert", "-m", lckv(), "-o", folder / "x", "--layer-map", "0_1_2_3_4_5"}).status, 65);
    EXPECT_EQ(trireme({"convert", "-m", lckv(), "-o", folder / "x", "--average", "--layer-map", "0_0_0_0_4_5"}).status,
              65);
    EXPECT_FALSE(std::filesystem::exists(folder / "x"));
}

TEST(SharingCommand, PlansForOwnersOnly) {
    const ProcessResult r = trireme({"plan", "-m", model(), "--kv-on-chip", "all", "--layer-map", "0_4_4_4_4_5"});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.out, HasSubstr("3 of 3 layers"));
}

// --parallel: each sample has the tokens that it has alone, also on two ranks; flags that exclude it are refused.
TEST(SharingCommand, SamplesSideBySide) {
    const auto samples = [](const std::string& model, const Words& more) {
        Words words = {"generate",      "-m", model,    "-p", kPrompt, "-n", "30",      "--temp", "0.9",
                       "--num-samples", "7",  "--seed", "4",  "-t",    "1",  "--dtype", "f32"};
        words.insert(words.end(), more.begin(), more.end());
        return words;
    };
    for (const std::string& m : {model(), lckv()}) {
        const ProcessResult alone = trireme(samples(m, {}));
        ASSERT_EQ(alone.status, 0) << alone.err;
        for (const char* parallel : {"2", "7", "100", "auto"}) {
            EXPECT_EQ(trireme(samples(m, {"-np", parallel})).out, alone.out) << m << " " << parallel;
        }
        for (const char* on_chip : {"0", "2"}) {
            EXPECT_EQ(trireme(samples(m, {"-np", "3", "--kv-on-chip", on_chip})).out, alone.out) << m << " " << on_chip;
        }
        EXPECT_EQ(trireme_on(2, samples(m, {"--parallel", "3"})).out, trireme_on(2, samples(m, {})).out) << m;
    }
}

// The log probability of a continuation is that of its tokens after the context.
TEST(SharingCommand, ScoresPairs) {
    const TempFolder folder;
    const std::string file = folder / "pairs.jsonl";
    std::ofstream(file)
        << R"({"context": "And God said, Let there be light: and there was", "continuation": " light."})"
        << "\n\n"
        << R"({"context": "In the beginning God ", "continuation": "created"})"
        << "\n"
        << R"({"context": "", "continuation": "And"})"
        << "\n";
    const Words words = {"score", "-m", model(), "--data", file, "--dtype", "f32", "-ctk", "f32", "-ctv", "f32"};
    const ProcessResult r = trireme(words);
    ASSERT_EQ(r.status, 0) << r.err;
    const Words lines = lines_of(r.out);
    ASSERT_EQ(lines.size(), 3u);
    const std::pair<const char*, const char*> pairs[] = {{"And God said, Let there be light: and there was", " light."},
                                                         {"In the beginning God", " created"},
                                                         {"", "And"}};
    for (size_t i = 0; i < 3; ++i) {
        const json got = json::parse(lines[i]);
        const std::string whole = std::string(pairs[i].first) + pairs[i].second;
        const auto logprobs = json::parse(
            trireme({"score", "-m", model(), "-p", whole, "-o", "-", "--dtype", "f32", "-ctk", "f32", "-ctv", "f32"})
                .out)["logprobs"];
        const auto n = got["tokens"].get<size_t>();
        double sum = 0;
        for (size_t t = logprobs.size() - n; t < logprobs.size(); ++t) sum += logprobs[t].get<double>();
        EXPECT_NEAR(got["logprob"].get<double>(), sum, 1e-4 * std::fabs(sum)) << lines[i];
        EXPECT_EQ(got["index"], i);
    }
    EXPECT_FALSE(json::parse(lines[2])["greedy"].get<bool>());
    EXPECT_EQ(lines_of(trireme_on(2, words).out).size(), 3u);

    // The model's own output is the greedy continuation.
    const std::string context = "And the LORD spake unto";
    const std::string said = trireme({"generate", "-m", model(), "-p", context, "-n", "5", "--temp", "0", "--dtype",
                                      "f32", "-ctk", "f32", "-ctv", "f32"})
                                 .out;
    std::ofstream(file)
        << json({{"context", context}, {"continuation", said.substr(0, said.find_last_not_of('\n') + 1)}}).dump()
        << "\n";
    EXPECT_TRUE(json::parse(trireme(words).out)["greedy"].get<bool>()) << said;

    std::ofstream(file) << R"({"context": "And God"})"
                        << "\n";
    const ProcessResult bad = trireme(words);
    EXPECT_EQ(bad.status, 65);
    EXPECT_THAT(bad.err, ContainsRegex("pairs.jsonl:1: .*'continuation'"));
}

// In a layer with s, LCKV's eager code sees W tokens, and FlashAttention 2 sees W + 1.
TEST(SharingCommand, WindowsAreAsWideAsTheTrainingsWere) {
    const TempFolder folder;
    for (const char* name : {"model.safetensors", "tokenizer.model"}) {
        write_file(folder / name, read_file(model() + "/" + name));
    }
    const auto with_window = [&](int window, const Words& more) {
        json config = json::parse(read_file(model() + "/config.json"));
        config["model_type"] = "lckv-llama";
        config["architectures"] = {"LCKVLlamaForCausalLM"};
        config["layer_types"] = "0s_1s_2_3s_4_5";
        config["sliding_window"] = window;
        config["forward_passes"] = 1;
        config["backward_passes"] = 0;
        write_file(folder / "config.json", config.dump());
        return score(folder.path(), more)["logprobs"];
    };
    EXPECT_EQ(with_window(6, {"--layer-window", "W+1"}), with_window(7, {}));
    EXPECT_EQ(with_window(6, {"--layer-window", "W"}), with_window(6, {}));
    EXPECT_NE(with_window(6, {}), with_window(7, {}));
}

}  // namespace
}  // namespace trireme::test
