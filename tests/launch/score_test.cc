// `trireme score`, `trireme tokenize` and what needs no model, as processes.

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

const std::string kText = "And God said, Let there be light: and there was light.";

json score(Words more) {
    Words words = {"score", "-m", model(), "-t", "1"};
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
    // One rounding of 2^-53 for each term of the sum and a few for exp, times the size of the exponent.
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

/// What --dump-logits wrote.
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
            // Another order of summing a vocabulary's positive doubles: 2^-53 each.
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

// 163 ids: a rank's columns come in multiples of 32, so its rows of logits are longer than the vocabulary.
TEST(ScoreCommand, DumpsTheLogitsOfAVocabularyOfAnySize) {
    const TempFolder folder;
    write_file(folder / "ids.json", "[3,141,59,26,53,58,97,93,23,84,62,64,33,83,27,95,162,0]");
    for (const int ranks : {1, 2}) {
        const std::string path = folder / ("l" + std::to_string(ranks) + ".h5");
        const Words words = {
            "score",         "-m", data("tiny/odd-extents"), "-t", "1", "-c", "64", "--prompt-ids", folder / "ids.json",
            "--dump-logits", path};
        const ProcessResult r = ranks == 1 ? trireme(words) : trireme_on(ranks, words);
        ASSERT_EQ(r.status, 0) << r.err;

        const Dumped dumped(path);

        EXPECT_EQ(dumped.vocab, 163u);
        dumped.expect_scored_with(json::parse(r.out));
    }
}

// Another number of ranks adds in another order. In f32 that is all: 2e-5 of the largest logit (about 20) is the bound
// for the forward, twice for a logit and the sum. Where values are rounded to 16 bits, the last bits' difference may
// round one of them the other way: half a step of that type each, two products a layer whose errors add as roots of
// squares do, 6 layers.
TEST(ScoreCommand, AgreesAcrossRanks) {
    const double rounded = 2 * std::sqrt(2 * 6) * 20;
    const struct {
        const char *type, *kv;
        double bound;
    } cases[] = {{"f32", "f32", 2 * 2e-5 * 20}, {"f16", "f16", rounded / 4096}, {"bf16", "f16", rounded / 512}};
    for (const auto& [type, kv, bound] : cases) {
        const json one = score({"-p", kText, "--dtype", type, "--kv-cache-dtype", kv});
        const ProcessResult r =
            trireme_on(2, {"score", "-m", model(), "-p", kText, "--dtype", type, "--kv-cache-dtype", kv, "-t", "1"});
        ASSERT_EQ(r.status, 0) << r.err;

        const json two = json::parse(r.out);

        ASSERT_EQ(two["tokens"], one["tokens"]);
        for (size_t i = 0; i < one["logprobs"].size(); ++i) {
            EXPECT_NEAR(two["logprobs"][i].get<double>(), one["logprobs"][i].get<double>(), bound) << type;
        }
    }
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

// C0 can stand in no UTF-8 text, so some vocabularies have no token for it.
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
    EXPECT_THAT(some.err,
                HasSubstr("warning: 2 bytes of the prompt are left out: this tokenizer has no token for them; "
                          "the first is 0xc0 at offset 7"));
    EXPECT_EQ(some.out, run("tokenizer.json", "In the \xF5 beginning").out);
    EXPECT_EQ(run("tokenizer.json", "In the \xF5 beginning").err, "");
    EXPECT_EQ(run("whole.json", text).err, "");
    EXPECT_THAT(trireme_on(2, {"tokenize", "-m", folder.path(), "-p", text}).err, HasSubstr("2 bytes of the prompt"));
}

TEST(TokenizeCommand, PrintsOnceUnderMpirun) {
    const ProcessResult r = trireme_on(2, {"tokenize", "-m", model(), "-p", kText});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(json::parse(r.out), tokens({"-p", kText}));
}

TEST(Program, TellsAboutItself) {
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
