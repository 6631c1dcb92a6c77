// `trireme generate`, as a process.

#include <csignal>
#include <cstdio>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::string kPrompt = "In the beginning God created the heaven and the earth.";

Words generate(Words more) {
    Words words = {"generate", "-m", model(), "--temp", "0", "--ignore-eos", "-t", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

json ids_of(const ProcessResult& r) {
    EXPECT_EQ(r.status, 0) << r.err;
    return json::parse(r.out, nullptr, /*allow_exceptions=*/false);
}

TEST(GenerateCommand, PrintsTextOnStdoutAndTheRestOnStderr) {
    const ProcessResult r = trireme(generate({"-p", kPrompt, "-n", "8"}));

    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_FALSE(r.out.empty());
    EXPECT_NE(r.out.back(), '\n');  // nothing is added for a pipe
    EXPECT_THAT(r.err, HasSubstr("tok/s"));
    EXPECT_THAT(r.err, HasSubstr(kStoppedBy + "limit"));
}

TEST(GenerateCommand, PrintsIdsAsOneArrayALine) {
    const ProcessResult r = trireme(generate({"-p", kPrompt, "-n", "8", "--print", "ids", "--num-samples", "3"}));

    const Words lines = lines_of(r.out);
    ASSERT_THAT(lines, SizeIs(3));
    EXPECT_EQ(r.out.back(), '\n');
    for (const std::string& line : lines) {
        EXPECT_THAT(json::parse(line), SizeIs(8));
        EXPECT_EQ(line, lines[0]);  // greedy samples are equal
    }
}

TEST(GenerateCommand, TakesTheSamePromptFromEverywhere) {
    const TempFolder folder;
    write_file(folder / "prompt.txt", kPrompt);
    const ProcessResult tokenized = trireme({"tokenize", "-m", model(), "-p", kPrompt, "--add-special"});
    write_file(folder / "ids.json", tokenized.out);
    const json want = ids_of(trireme(generate({"-p", kPrompt, "-n", "6", "--print", "ids"})));

    EXPECT_EQ(ids_of(trireme(generate({"-f", folder / "prompt.txt", "-n", "6", "--print", "ids"}))), want);
    EXPECT_EQ(ids_of(trireme(generate({"-f", "-", "-n", "6", "--print", "ids"}), {.input = kPrompt})), want);
    EXPECT_EQ(ids_of(trireme(generate({"--prompt-ids", folder / "ids.json", "-n", "6", "--print", "ids"}))), want);
    EXPECT_EQ(ids_of(trireme(generate({"--prompt-ids", "-", "-n", "6", "--print", "ids"}), {.input = tokenized.out})),
              want);
    EXPECT_EQ(ids_of(trireme(generate({"-n", "6", "--print", "ids"}), {.environment = {"TRIREME_PROMPT=" + kPrompt}})),
              want);
    EXPECT_NE(ids_of(trireme(generate({"-p", kPrompt, "-n", "6", "--print", "ids", "--add-special=off"}))), want);
}

TEST(GenerateCommand, HasTheSameTokensOnOneRankAndOnSeveral) {
    const Words words =
        generate({"-p", kPrompt, "-n", "16", "--print", "ids", "--dtype", "f32", "-ctk", "f32", "-ctv", "f32"});
    const json want = ids_of(trireme(words));

    EXPECT_EQ(ids_of(trireme_on(2, words)), want);
    EXPECT_EQ(ids_of(trireme_on(3, words)), want);
}

TEST(GenerateCommand, SamplesDependOnSeedAndNumberAlone) {
    const auto lines = [](const char* seed, const char* samples) {
        return lines_of(trireme({"generate", "-m", model(), "-p", kPrompt, "-n", "8", "--print", "ids", "--seed", seed,
                                 "--num-samples", samples, "--temp", "1", "-t", "1"})
                            .out);
    };
    const Words three = lines("7", "3"), two = lines("7", "2"), other = lines("8", "2");

    ASSERT_THAT(three, SizeIs(3));
    EXPECT_EQ(two, Words({three[0], three[1]}));
    EXPECT_NE(three[0], three[1]);
    EXPECT_NE(other, two);
}

TEST(GenerateCommand, EndsBeforeAStopString) {
    const std::string text = trireme(generate({"-p", kPrompt, "-n", "40"})).out;
    const std::string stop = text.substr(text.size() / 2, 3);

    const ProcessResult r = trireme(generate({"-p", kPrompt, "-n", "40", "--stop", stop}));

    EXPECT_EQ(r.out, text.substr(0, text.find(stop)));
    EXPECT_THAT(r.err, HasSubstr(kStoppedBy + "stop_string"));
}

TEST(GenerateCommand, StopsAtTheEndOfTheContext) {
    const ProcessResult r = trireme(generate({"-p", kPrompt, "-c", "48", "--print", "ids"}));

    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr(kStoppedBy + "context"));
}

TEST(GenerateCommand, WritesAReport) {
    const TempFolder folder;
    const ProcessResult r = trireme_on(
        2, generate({"-p", kPrompt, "-n", "8", "--report-json", folder / "r.json", "--trace", folder / "t.json"}));
    ASSERT_EQ(r.status, 0) << r.err;

    const json report = json::parse(read_file(folder / "r.json"));
    for (const char* name :
         {"build_commit", "ttft_ms", "tpot_ms", "prefill_tok_s", "decode_tok_s", "read_gbps", "allreduce_ms", "load_ms",
          "weight_bytes", "weight_bytes_per_step", "kv_bytes", "peak_rss_bytes"}) {
        EXPECT_TRUE(report.contains(name)) << name;
    }
    // Each rank holds the whole embedding [1024, 128] in f16; a step reads one row of it per token.
    const int64_t weights = report["weight_bytes"], per_step = report["weight_bytes_per_step"];
    EXPECT_GE(weights - per_step, 2 * 1024 * 128 * 2);
    char shown[64];
    std::snprintf(shown, sizeof shown, "weights f16 %.1f MB,", static_cast<double>(weights) * 1e-6);
    EXPECT_THAT(r.err, HasSubstr(shown));
    EXPECT_EQ(report["n_ranks"], 2);
    EXPECT_THAT(report["ranks"], SizeIs(2));
    EXPECT_EQ(report["n_gen"], 8);
    EXPECT_EQ(report["settings"]["temp"], "0");
    EXPECT_EQ(report["model"]["n_layers"], 6);
    EXPECT_EQ(report["weights"]["dtype"], "f16");
    EXPECT_EQ(report["samples"][0]["text"], r.out);
    EXPECT_THAT(report["samples"][0]["ids"], SizeIs(8));
    EXPECT_EQ(report["samples"][0]["stop"], "limit");

    const json trace = json::parse(read_file(folder / "t.json"));
    std::set<int> ranks;
    for (const json& event : trace["traceEvents"]) ranks.insert(event["pid"].get<int>());
    EXPECT_THAT(ranks, testing::ElementsAre(0, 1));
    EXPECT_THAT(folder.names(), SizeIs(2));  // no temporary file is left
}

TEST(GenerateCommand, ReadsAnIniFile) {
    const TempFolder folder;
    write_file(folder / "run.ini", "model = " + model() + "\nn-predict = 5\nprint = ids\ntemp = 0\nthreads = 1\n");

    EXPECT_THAT(ids_of(trireme({"generate", "--config", folder / "run.ini", "-p", kPrompt})), SizeIs(5));
}

TEST(GenerateCommand, SaysWhichTypeTheWeightsHave) {
    EXPECT_THAT(trireme(generate({"-p", kPrompt, "-n", "1"})).err, testing::ContainsRegex("weights f16: [^\n]* F16"));
    EXPECT_THAT(trireme(generate({"-p", kPrompt, "-n", "1", "--dtype", "bf16"})).err,
                HasSubstr("weights bf16: --dtype"));
}

TEST(GenerateCommand, StartsNoMoreThreadsThanThereAreCpus) {
    const ProcessResult r = trireme({"generate", "-m", model(), "-p", "In the beginning", "-n", "3", "-t", "999"});
    EXPECT_EQ(r.status, 0);
    EXPECT_THAT(r.err, HasSubstr("warning: -t 999: "));
    EXPECT_EQ(r.err.find("999 compute threads"), std::string::npos);
}

TEST(GenerateCommand, FinishesTheTokenOnASignal) {
    for (const int number : {SIGINT, SIGTERM}) {
        const TempFolder folder;
        const ProcessResult r = trireme(generate({"-p", kPrompt, "-c", "2K", "--report-json", folder / "r.json"}),
                                        {.signal_at_output = number});
        EXPECT_EQ(json::parse(read_file(folder / "r.json"))["samples"][0]["stop"], "interrupted");

        EXPECT_EQ(r.status, 128 + number) << r.err;
        EXPECT_THAT(error_lines(r), IsEmpty());
        EXPECT_THAT(r.err, HasSubstr(kStoppedBy + "signal " + std::to_string(number)));
    }
}

TEST(GenerateCommand, EndsAlikeWithTextAndWithIds) {
    const TempFolder folder;
    const std::string prompt = "In the beginning";
    std::filesystem::copy(model(), folder / "m", std::filesystem::copy_options::recursive);
    write_file(folder / "m/tokenizer_config.json", R"({"eos_token": "\u2581and"})");
    const Words words = {"generate", "-m", folder / "m", "-n", "40", "-t", "1", "--temp", "0"};
    const auto with = [&](Words more) {
        more.insert(more.begin(), words.begin(), words.end());
        return trireme(more);
    };
    const ProcessResult tokenized = trireme({"tokenize", "-m", folder / "m", "--add-special", "-p", prompt});
    const json from_ids = ids_of(trireme(
        {"generate", "-m", folder / "m", "-n", "40", "-t", "1", "--temp", "0", "--prompt-ids", "-", "--print", "ids"},
        {.input = tokenized.out}));

    EXPECT_EQ(from_ids, ids_of(with({"-p", prompt, "--print", "ids"})));
    EXPECT_THAT(with({"-p", prompt}).err, HasSubstr(kStoppedBy + "eos"));
    EXPECT_LT(from_ids.size(), 40u);
}

TEST(GenerateCommand, IgnoresTheOtherCommandsOutputsInAFile) {
    const TempFolder folder;
    write_file(folder / "there.h5", "kept");
    write_file(folder / "run.ini", "model = " + model() + "\nn-predict = 2\nthreads = 1\ntensor-parallel-size = 1\n" +
                                       "dump-logits = " + (folder / "there.h5") + "\n");

    EXPECT_EQ(trireme({"generate", "--config", folder / "run.ini", "-p", kPrompt}).status, 0);
    EXPECT_EQ(trireme({"tokenize", "--config", folder / "run.ini", "-p", kPrompt}).status, 0);
    EXPECT_EQ(read_file(folder / "there.h5"), "kept");
}

TEST(GenerateCommand, EndsQuietlyWithoutAReader) {
    const std::string pipeline = std::string("set -o pipefail; ") + TRIREME_PROGRAM + " generate -m " + model() +
                                 " -p 'In the beginning' --ignore-eos -t 1 -lv error | head -c 8";
    const ProcessResult r = run_process({"bash", "-c", pipeline});

    EXPECT_EQ(r.status, 0);
    EXPECT_THAT(r.out, SizeIs(8));
    EXPECT_EQ(r.err, "");
}

TEST(TokenizeCommand, ReportsAFullDisk) {
    const ProcessResult r =
        run_process({"bash", "-c", std::string(TRIREME_PROGRAM) + " tokenize -m " + model() + " -p hello > /dev/full"});
    EXPECT_EQ(r.status, 74);
    EXPECT_THAT(r.err, HasSubstr("trireme: error: stdout: "));
}

TEST(GenerateCommand, WarnsOnceOfASecondBeginOfText) {
    const auto warnings = [](const Words& more) {
        Words words = {"generate", "-m", model(), "-n", "1", "--temp", "0", "-t", "1"};
        words.insert(words.end(), more.begin(), more.end());
        const ProcessResult r = trireme(words);
        EXPECT_EQ(r.status, 0) << r.err;
        return testing::Value(r.err, HasSubstr("begins with <s>"));
    };
    EXPECT_TRUE(warnings({"-p", "<s>And God"}));
    EXPECT_FALSE(warnings({"-p", "And God"}));
    EXPECT_FALSE(warnings({"-p", "<s>And God", "--no-bos"}));
    EXPECT_FALSE(warnings({"-p", "And <s> God"}));
}

// The first token that the model generates is declared to be EOS.
TEST(GenerateCommand, AnEmptyAnswerOfAChatModelIsExplained) {
    const std::string prompt = "And God saw the light", said = "answer is empty";
    const ProcessResult ids =
        trireme({"generate", "-m", model(), "-p", prompt, "-n", "1", "--temp", "0", "-t", "1", "--print", "ids"});
    const TempFolder folder;
    for (const char* name : {"model.safetensors", "tokenizer.model"}) {
        write_file(folder / name, read_file(model() + "/" + name));
    }
    nlohmann::json config = nlohmann::json::parse(read_file(model() + "/config.json"));
    config["eos_token_id"] = nlohmann::json::parse(ids.out)[0];
    write_file(folder / "config.json", config.dump());
    const auto run = [&](const Words& more = {}) {
        Words words = {"generate", "-m", folder.path(), "-p", prompt, "-n", "5", "--temp", "0", "-t", "1"};
        words.insert(words.end(), more.begin(), more.end());
        const ProcessResult r = trireme(words);
        EXPECT_EQ(r.status, 0) << r.err;
        return r;
    };
    EXPECT_EQ(run().out, "");
    EXPECT_EQ(run().err.find(said), std::string::npos);  // without a template there is no warning
    write_file(folder / "tokenizer_config.json",
               R"({"bos_token": "<s>", "add_bos_token": true, "chat_template": "{{ messages }}"})");
    EXPECT_THAT(run().err, testing::HasSubstr(said));
    EXPECT_EQ(run({"--ignore-eos"}).err.find(said), std::string::npos);
    write_file(folder / "tokenizer_config.json",
               R"({"bos_token": "<s>", "add_bos_token": true, "chat_template": null})");
    EXPECT_EQ(run().err.find(said), std::string::npos);
    write_file(folder / "chat_template.jinja", "{{ messages }}");
    EXPECT_THAT(run().err, testing::HasSubstr(said));

    write_file(folder / "in.jsonl",
               nlohmann::json{{"prompt", prompt}}.dump() + "\n" + nlohmann::json{{"prompt", prompt}}.dump() + "\n");
    const ProcessResult batch = trireme({"batch", "-m", folder.path(), "--input", folder / "in.jsonl", "-o",
                                         folder / "out.jsonl", "--temp", "0", "-t", "1"});
    const size_t first = batch.err.find(said);
    EXPECT_NE(first, std::string::npos);
    EXPECT_EQ(batch.err.find(said, first + 1), std::string::npos);  // the warning appears once
}

}  // namespace
}  // namespace trireme::test
