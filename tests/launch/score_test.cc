// `trireme score`, `trireme tokenize` and commands without a model, as processes.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <nlohmann/json.hpp>

#include "offload/evicting/policies.h"
#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

const std::string kText = "And God said, Let there be light: and there was light.";

json score(Words more) {
    Words words = {"score", "-m", model(), "-t", "1", "-o", "-"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult r = trireme(words);
    EXPECT_EQ(r.status, 0) << r.err;
    return json::parse(r.out, nullptr, /*allow_exceptions=*/false);
}

json tokens(const Words& more, const std::string& input = "") {
    Words words = {"tokenize", "-m", model()};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult r = trireme(words, {.input = input});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.err, "");
    return json::parse(r.out, nullptr, /*allow_exceptions=*/false);
}

TEST(ScoreCommand, GivesOneLogProbabilityForEveryTokenButTheFirst) {
    const json s = score({"-p", kText});

    ASSERT_TRUE(s["tokens"].is_array());
    ASSERT_THAT(s["logprobs"], SizeIs(s["tokens"].size() - 1));
    double total = 0;
    for (const double x : s["logprobs"]) {
        EXPECT_LT(x, 0);
        total += x;
    }
    const double want = std::exp(-total / static_cast<double>(s["logprobs"].size()));
    // The sum rounds by 2^-53 per term, and exp a few times more, scaled by the size of the exponent.
    EXPECT_NEAR(s["perplexity"].get<double>(), want, want * 1e-13);
}

TEST(ScoreCommand, NeverAddsABosToIds) {
    const TempFolder folder;
    const json ids = tokens({"-p", kText}), with_bos = tokens({"-p", kText, "--add-special"});
    write_file(folder / "ids.json", ids.dump());

    EXPECT_EQ(with_bos.size(), ids.size() + 1);
    EXPECT_EQ(score({"--prompt-ids", folder / "ids.json"})["tokens"], ids);
    EXPECT_EQ(score({"--prompt-ids", folder / "ids.json", "--add-special"})["tokens"], ids);
    EXPECT_EQ(score({"-p", kText})["tokens"], with_bos);
    EXPECT_EQ(score({"-p", kText, "--add-special=off"})["tokens"], ids);
}

/// The file of --dump-logits.
struct Dumped {
    size_t rows = 0, vocab = 0;
    std::vector<float> logits;

    explicit Dumped(const std::string& path) {
        const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
        const hid_t set = H5Dopen2(file, "logits", H5P_DEFAULT);
        EXPECT_GE(set, 0) << path;
        hsize_t extents[2] = {0, 0};
        EXPECT_EQ(H5Sget_simple_extent_dims(H5Dget_space(set), extents, nullptr), 2);
        rows = extents[0];
        vocab = extents[1];
        logits.resize(rows * vocab);
        EXPECT_GE(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, logits.data()), 0);
        H5Dclose(set);
        H5Fclose(file);
    }
    void expect_scored_with(const json& s) const {
        ASSERT_EQ(rows, s["tokens"].size());
        for (size_t i = 0; i + 1 < rows; ++i) {
            const float* row = logits.data() + i * vocab;
            double sum = 0;
            for (size_t c = 0; c < vocab; ++c) sum += std::exp(static_cast<double>(row[c]));
            const double want = static_cast<double>(row[s["tokens"][i + 1].get<size_t>()]) - std::log(sum);
            // The positive doubles of a vocabulary are summed in another order: 2^-53 each.
            EXPECT_NEAR(s["logprobs"][i].get<double>(), want, 1e-12) << "row " << i;
        }
    }
};

TEST(ScoreCommand, DumpsTheLogitsItScoredWith) {
    const TempFolder folder;
    const json s = score({"-p", kText, "--dump-logits", folder / "l.h5"});

    const Dumped dumped(folder / "l.h5");

    EXPECT_EQ(dumped.vocab, 1024u);
    dumped.expect_scored_with(s);
    EXPECT_THAT(folder.names(), SizeIs(1));
}

// A vocabulary of 163 ids: a rank has a multiple of 32 columns, so rows of logits are longer than the vocabulary.
TEST(ScoreCommand, DumpsTheLogitsOfAVocabularyOfAnySize) {
    const TempFolder folder;
    write_file(folder / "ids.json", "[3,141,59,26,53,58,97,93,23,84,62,64,33,83,27,95,162,0]");
    for (const int ranks : {1, 2}) {
        const std::string path = folder / ("l" + std::to_string(ranks) + ".h5");
        const Words words = {"score",
                             "-m",
                             data("tiny/odd-extents"),
                             "-t",
                             "1",
                             "-c",
                             "64",
                             "--prompt-ids",
                             folder / "ids.json",
                             "--dump-logits",
                             path,
                             "-o",
                             "-"};
        const ProcessResult r = ranks == 1 ? trireme(words) : trireme_on(ranks, words);
        ASSERT_EQ(r.status, 0) << r.err;

        const Dumped dumped(path);

        EXPECT_EQ(dumped.vocab, 163u);
        dumped.expect_scored_with(json::parse(r.out));
    }
}

// Another number of ranks adds in another order. In f32 the forward's bound is 2e-5 of the largest logit (about 20),
// and twice that for a logit and the sum. In 16 bits, such a difference can round a value to its neighbour: half a step
// of the type per product. There are two products per layer and 6 layers, and their errors add as a root of squares.
TEST(ScoreCommand, AgreesAcrossRanks) {
    const double rounded = 2 * std::sqrt(2 * 6) * 20;
    const struct {
        const char *type, *kv;
        double bound;
    } cases[] = {{"f32", "f32", 2 * 2e-5 * 20}, {"f16", "f16", rounded / 4096}, {"bf16", "f16", rounded / 512}};
    for (const auto& [type, kv, bound] : cases) {
        const json one = score({"-p", kText, "--dtype", type, "--kv-cache-dtype", kv});
        const ProcessResult r = trireme_on(
            2, {"score", "-m", model(), "-p", kText, "--dtype", type, "--kv-cache-dtype", kv, "-t", "1", "-o", "-"});
        ASSERT_EQ(r.status, 0) << r.err;

        const json two = json::parse(r.out);

        ASSERT_EQ(two["tokens"], one["tokens"]);
        for (size_t i = 0; i < one["logprobs"].size(); ++i) {
            EXPECT_NEAR(two["logprobs"][i].get<double>(), one["logprobs"][i].get<double>(), bound) << type;
        }
    }
}

const Words kExact = {"--dtype", "f32", "--kv-cache-dtype", "f32"};

ProcessResult scored(Words words, const Words& more = {}) {
    words.insert(words.begin(), {"score", "-m", model(), "-t", "1"});
    words.insert(words.end(), kExact.begin(), kExact.end());
    words.insert(words.end(), more.begin(), more.end());
    return trireme(words);
}

std::vector<json> pair_lines(const ProcessResult& r) {
    std::vector<json> all;
    for (const std::string& line : lines_of(r.out)) all.push_back(json::parse(line));
    return all;
}

TEST(ScoreCommand, PrintsASummaryAndWritesArraysOnRequest) {
    const TempFolder folder;
    const json arrays = score({"-p", kText});
    const ProcessResult r = trireme({"score", "-m", model(), "-t", "1", "-p", kText, "-o", folder / "arrays.json"});
    ASSERT_EQ(r.status, 0) << r.err;
    const json summary = json::parse(r.out);
    EXPECT_EQ(summary["tokens"], arrays["tokens"].size());
    EXPECT_EQ(summary["scored"], arrays["logprobs"].size());
    EXPECT_EQ(summary["perplexity"], arrays["perplexity"]);
    EXPECT_LT(r.out.size(), 200u);
    EXPECT_EQ(json::parse(read_file(folder / "arrays.json")), arrays);
    EXPECT_EQ(trireme({"score", "-m", model(), "-p", kText, "-o", folder / "arrays.json"}).status, 73);
}

// Windowed perplexity equals that of transformers within 1e-4: the logits differ by rounding.
TEST(ScoreCommand, ScoresLongTextsByTheWindowsOfTheReferences) {
    const json golden = json::parse(read_file(data("scoring/golden.json")));
    const Words text = {"-f", data("texts/kjv_12k.txt")};
    const auto expect_same = [&](const json& want, const Words& more) {
        const ProcessResult r = scored(text, more);
        ASSERT_EQ(r.status, 0) << r.err;
        const json got = json::parse(r.out);
        EXPECT_EQ(got["tokens"], golden["tokens"]);
        EXPECT_EQ(got["scored"], want["scored"]);
        EXPECT_NEAR(got["perplexity"].get<double>(), want["perplexity"].get<double>(), 1e-4) << want;
    };
    const auto number = [](const json& n) { return std::to_string(n.get<int>()); };
    for (const json& want : golden["windows"]) {
        expect_same(want, {"--window", number(want["window"]), "--stride", number(want["stride"])});
    }
    for (const json& want : golden["chunks"])
        expect_same(want, {"--rule", "llama", "--window", number(want["window"])});
    const ProcessResult whole = scored(text);
    EXPECT_EQ(whole.status, 78);
    EXPECT_THAT(whole.err, AllOf(HasSubstr(" 4601 tokens "), HasSubstr("--window 2048")));
}

TEST(ScoreCommand, WindowsOfWholeTextsAndOfManyAreThoseOfEach) {
    const TempFolder folder;
    const std::string verses = read_file(data("texts/kjv_12k.txt"));
    double sum = 0;
    int tokens = 0;
    std::string lines;
    for (int i = 0; i < 3; ++i) {
        const std::string text = verses.substr(static_cast<size_t>(i) * 900, 300 + 200 * static_cast<size_t>(i));
        lines += json{{"text", text}}.dump() + "\n";
        const json one = json::parse(scored({"-p", text}, {"--window", "100", "--stride", "50"}).out);
        sum += one["logprob"].get<double>();
        tokens += one["tokens"].get<int>();
    }
    write_file(folder / "texts.jsonl", lines);
    const Words flags = {"--window", "100", "--stride", "50"};
    const ProcessResult r = scored({"--data", folder / "texts.jsonl"}, flags);
    ASSERT_EQ(r.status, 0) << r.err;
    const json all = json::parse(r.out);
    EXPECT_EQ(all["texts"], 3);
    EXPECT_EQ(all["tokens"], tokens);
    EXPECT_NEAR(all["logprob"].get<double>(), sum, 1e-9 * std::fabs(sum));
    // A window that holds the whole text gives the same result as no window.
    EXPECT_EQ(json::parse(scored({"-p", kText}, {"--window", "2000"}).out)["logprob"],
              json::parse(scored({"-p", kText}).out)["logprob"]);
    for (const Words& bad : {Words{"--window", "1"},
                             {"--window", "5000"},
                             {"--window", "10", "--stride", "11"},
                             {"--rule", "llama", "--stride", "2"},
                             {"--rule", "llama", "--window", "2"},
                             {"--rule", "gguf"}}) {
        EXPECT_THAT(scored({"-p", kText}, bad).status, testing::AnyOf(64, 78)) << testing::PrintToString(bad);
    }
}

// 200 pairs, 22 of them longer than the context, compared with lm-evaluation-harness and transformers in fp32.
TEST(ScoreCommand, ScoresPairsAsTheHarnessDoes) {
    const json golden = json::parse(read_file(data("scoring/golden.json")));
    const ProcessResult r =
        scored({"--data", data("scoring/pairs.jsonl"), "-c", std::to_string(golden["context"].get<int>())});
    ASSERT_EQ(r.status, 0) << r.err;
    const std::vector<json> lines = pair_lines(r);
    ASSERT_EQ(lines.size(), 200u);
    int truncated = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
        EXPECT_NEAR(lines[i]["logprob"].get<double>(), golden["pairs"][i]["logprob"].get<double>(), 1e-3) << i;
        EXPECT_EQ(lines[i]["greedy"], golden["pairs"][i]["greedy"]) << i;
        truncated += lines[i].contains("truncated") ? 1 : 0;
    }
    EXPECT_EQ(truncated, 22);
    EXPECT_THAT(r.err, HasSubstr("22 pairs"));
}

TEST(ScoreCommand, OnePairThatCannotBeScoredStopsNoOther) {
    const TempFolder folder;
    const std::string file = folder / "pairs.jsonl";
    const std::string good = R"({"context": "And God", "continuation": " said"})";
    const std::string several = good + "\n{\"context\": \"And God\"}\nno JSON\n" +
                                R"({"context": "And", "continuation": ""})" + "\n[1]\n" + good + "\n";
    write_file(file, several);
    const ProcessResult r = scored({"--data", file});
    ASSERT_EQ(r.status, 0) << r.err;
    const std::vector<json> lines = pair_lines(r);
    ASSERT_EQ(lines.size(), 6u);
    for (size_t i = 0; i < 6; ++i) {
        EXPECT_EQ(lines[i]["index"], i);
        EXPECT_EQ(lines[i].contains("error"), i != 0 && i != 5);
    }
    EXPECT_THAT(lines[1]["error"], AllOf(HasSubstr("pairs.jsonl:2: "), HasSubstr("'continuation'")));
    EXPECT_THAT(lines[3]["error"], AllOf(HasSubstr("pairs.jsonl:4: "), HasSubstr("no tokens")));
    EXPECT_EQ(lines[0]["logprob"], lines[5]["logprob"]);
    EXPECT_THAT(r.err, HasSubstr("4 of 6 pairs"));

    const ProcessResult strict = scored({"--data", file}, {"--strict"});
    EXPECT_EQ(strict.status, 65);
    EXPECT_THAT(error_lines(strict),
                testing::ElementsAre(AllOf(HasSubstr("pairs.jsonl:2: "), HasSubstr("'continuation'"))));
    write_file(file, "[]\n");
    EXPECT_EQ(scored({"--data", file}).status, 65);
    EXPECT_EQ(
        lines_of(trireme_on(2, {"score", "-m", model(), "--data", data("scoring/pairs.jsonl"), "--limit", "9"}).out)
            .size(),
        9u);
}

// The continuation is scored with the tokens of the context that a policy retains, as during generation.
TEST(ScoreCommand, ScoresPairsUnderAPolicy) {
    const TempFolder folder;
    const std::string file = folder / "pairs.jsonl", verses = read_file(data("texts/kjv_12k.txt"));
    std::string lines;
    for (size_t i = 0; i < 4; ++i) {
        lines +=
            json{{"context", verses.substr(i * 700, 500)}, {"continuation", verses.substr(i * 700 + 500, 60)}}.dump() +
            "\n";
    }
    write_file(file, lines);
    const std::vector<json> full = pair_lines(scored({"--data", file}));
    const auto with = [&](const Words& policy) { return pair_lines(scored({"--data", file}, policy)); };
    const std::vector<json> all_kept = with({"--kv-policy", "h2o", "--kv-window", "900"});
    const std::vector<json> few = with({"--kv-policy", "streaming", "--kv-window", "32"});
    for (size_t i = 0; i < 4; ++i) {
        const double want = full[i]["logprob"];
        EXPECT_NEAR(all_kept[i]["logprob"].get<double>(), want, 1e-4 * std::fabs(want));
        EXPECT_NE(few[i]["logprob"], full[i]["logprob"]);
    }
    // The greedy continuation under a policy is the text of generate under the same policy.
    for (const KvPolicy kind : evicting_policies()) {
        const std::string name(name_of(kind));
        // A pyramid depends on the prompt's length if the prompt is shorter than two budgets.
        const Words policy = {"--kv-policy", name, "--kv-window", name == "pyramidkv" ? "200" : "96"};
        for (const size_t begin : {size_t{0}, size_t{1500}}) {
            const std::string context = verses.substr(begin, verses.rfind(' ', begin + 900) - begin);
            Words words = {"generate", "-m", model(), "-t", "1", "-p", context, "-n", "12", "--temp", "0"};
            words.insert(words.end(), kExact.begin(), kExact.end());
            words.insert(words.end(), policy.begin(), policy.end());
            const std::string said = trireme(words).out;
            write_file(file, json{{"context", context}, {"continuation", said}}.dump() + "\n");
            EXPECT_TRUE(with(policy)[0]["greedy"]) << name << said;
        }
    }
    EXPECT_EQ(scored({"--data", file}, {"--kv-policy", "h2o", "--kv-window", "0.2"}).status, 64);
}

TEST(TokenizeCommand, NeedsTheTokenizersFilesOnly) {
    const TempFolder folder;
    write_file(folder / "tokenizer.model", read_file(model() + "/tokenizer.model"));
    const ProcessResult r = trireme({"tokenize", "-m", folder.path(), "-f", "-"}, {.input = kText});

    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(json::parse(r.out), tokens({"-p", kText}));
    EXPECT_THAT(lines_of(r.out), SizeIs(1));
}

TEST(TokenizeCommand, PrintsAnEmptyArrayForAnEmptyText) {
    EXPECT_EQ(tokens({"-f", "-"}), json::array());
    EXPECT_THAT(tokens({"-f", "-", "--add-special"}), SizeIs(1));
}

// The byte C0 occurs in no UTF-8 text, so some vocabularies have no token for it.
TEST(TokenizeCommand, WarnsOfBytesThatNoTokenStandsFor) {
    const TempFolder folder;
    json tokenizer = json::parse(read_file(data("tokenizers/gpt2/tokenizer.json")));
    write_file(folder / "whole.json", tokenizer.dump());
    tokenizer["model"]["vocab"].erase("\u00c0");
    write_file(folder / "tokenizer.json", tokenizer.dump());
    const std::string text = "In the \xC0\xF5 beginning\xC0";
    const auto run = [&](const std::string& path, const std::string& input) {
        return trireme({"tokenize", "-m", folder.path(), "--tokenizer", folder / path, "-f", "-"}, {.input = input});
    };

    const ProcessResult some = run("tokenizer.json", text);
    EXPECT_EQ(some.status, 0);
    ASSERT_THAT(lines_of(some.err), SizeIs(1)) << some.err;
    EXPECT_THAT(some.err, AllOf(HasSubstr("warning: 2 bytes of "), HasSubstr("0xc0 at offset 7")));
    EXPECT_EQ(some.out, run("tokenizer.json", "In the \xF5 beginning").out);
    EXPECT_EQ(run("tokenizer.json", "In the \xF5 beginning").err, "");
    EXPECT_EQ(run("whole.json", text).err, "");
    EXPECT_THAT(trireme_on(2, {"tokenize", "-m", folder.path(), "-p", text}).err, HasSubstr("2 bytes of "));
}

TEST(TokenizeCommand, PrintsOnceUnderMpirun) {
    const ProcessResult r = trireme_on(2, {"tokenize", "-m", model(), "-p", kText});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(json::parse(r.out), tokens({"-p", kText}));
}

TEST(Program, DescribesItself) {
    for (const char* library : {"Open MPI", "PCRE2", "utf8proc", "sentencepiece"}) {
        EXPECT_THAT(trireme({"--version"}).out, HasSubstr(library));
    }
    EXPECT_THAT(trireme({"--help"}).out, HasSubstr("trireme generate"));
    EXPECT_THAT(trireme({"score", "--help"}).out, HasSubstr("--dump-logits"));
    EXPECT_THAT(trireme({"--list-devices"}).out, HasSubstr("cpu"));
    EXPECT_EQ(trireme({"--list-devices"}).status, 0);
    EXPECT_THAT(trireme({"--man"}).out, HasSubstr("\n.TH TRIREME 1 "));
    EXPECT_THAT(trireme({"--completion", "bash"}).out, HasSubstr("\ncomplete -F _trireme trireme\n"));
    EXPECT_THAT(lines_of(trireme_on(2, {"--version"}).out), SizeIs(lines_of(trireme({"--version"}).out).size()));
}

}  // namespace
}  // namespace trireme::test
