// Runs of every family: speculated, streamed, evicted, on several ranks, and converted; or refused, with the reason.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"
#include "tests/support/golden.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct FamilyCase {
    std::string model;
    bool windowed = false;
};
void PrintTo(const FamilyCase& c, std::ostream* out) {
    *out << c.model;
}

class FamilyRuns : public testing::TestWithParam<FamilyCase> {
  protected:
    FamilyRuns() {
        std::string ids = "[";
        for (int i = 0; i < 90; ++i) ids += fmt::format("{}{}", i > 0 ? "," : "", 5 + i % 18 * 7);  // repeats itself
        write_file(folder_ / "ids.json", ids + "]");
    }
    Words words(const std::string& model, const Words& more = {}) const {
        return Words{"generate",
                     "-m",
                     model,
                     "--prompt-ids",
                     folder_ / "ids.json",
                     "-n",
                     "30",
                     "--temp",
                     "0",
                     "--print",
                     "ids",
                     "--ignore-eos",
                     "-c",
                     "256",
                     "--dtype",
                     "f32",
                     "-ctk",
                     "f32",
                     "-ctv",
                     "f32"} +
               more;
    }
    std::string tokens(const std::string& model, const Words& more = {}) const {
        const ProcessResult r = trireme(words(model, more));
        EXPECT_EQ(r.status, 0) << r.err;
        return r.out;
    }

    TempFolder folder_;
};

TEST_P(FamilyRuns, SpeculatedAndStreamedGiveTheTokensOfPlainDecoding) {
    const std::string model = data(GetParam().model), plain = tokens(model);
    EXPECT_EQ(tokens(model, {"--spec", "ngram", "--gamma", "4"}), plain);
    EXPECT_EQ(tokens(model, {"--kv-on-chip", "0"}), plain);
    EXPECT_EQ(trireme_on(2, words(model, {"--kv-on-chip", "1"})).out, plain);
    for (const Words& how : {Words{"--spec", "retrieval", "--budget", "32", "--gamma", "3"},
                             {"--spec", "h2o", "--kv-window", "32", "--gamma", "3", "--kv-on-chip", "1"}}) {
        if (!GetParam().windowed) {
            EXPECT_EQ(tokens(model, how), plain) << how[1];
            continue;
        }
        const ProcessResult r = trireme(words(model, how));
        EXPECT_EQ(r.status, 65);
        EXPECT_THAT(error_lines(r), ElementsAre(AllOf(HasSubstr("layer "), HasSubstr("tokens")))) << how[1];
    }
}

TEST_P(FamilyRuns, EvictOrAreRefusedWithTheReason) {
    for (const Words& how : {Words{"--kv-policy", "h2o", "--kv-window", "40"},
                             {"--kv-policy", "streaming", "--kv-window", "40", "--kv-positions", "rolling"}}) {
        const ProcessResult r = trireme(words(data(GetParam().model), how));
        EXPECT_EQ(r.status, GetParam().windowed ? 65 : 0) << r.err;
        if (GetParam().windowed) {
            EXPECT_THAT(error_lines(r), ElementsAre(AllOf(HasSubstr("layer "), HasSubstr("--kv-policy"))));
        }
    }
    // A budget of the whole text evicts nothing.
    if (GetParam().windowed) return;
    EXPECT_EQ(tokens(data(GetParam().model), {"--kv-policy", "h2o", "--kv-window", "200"}),
              tokens(data(GetParam().model)));
}

TEST_P(FamilyRuns, ConvertedModelsGiveTheSameTokens) {
    const std::string plain = tokens(data(GetParam().model));
    for (const char* to : {"folder", "model.h5"}) {
        const ProcessResult r =
            trireme({"convert", "-m", data(GetParam().model), "-o", folder_ / to, "--dtype", "f32"});
        ASSERT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(tokens(folder_ / to), plain) << to;
    }
    // Again from the store, and from the folder.
    for (const char* from : {"folder", "model.h5"}) {
        const std::string to = folder_ / (std::string("of_") + from);
        ASSERT_EQ(trireme({"convert", "-m", folder_ / from, "-o", to}).status, 0);
        EXPECT_EQ(tokens(to), plain) << from;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, FamilyRuns,
                         testing::Values(FamilyCase{"tiny/qwen2-tied"}, FamilyCase{"tiny/qwen2-window", true},
                                         FamilyCase{"tiny/qwen3-norms"}, FamilyCase{"tiny/qwen3-head-dim"},
                                         FamilyCase{"tiny/llama-bias"}, FamilyCase{"tiny/mistral-window", true},
                                         FamilyCase{"tiny/phi3-short"}, FamilyCase{"tiny/phi3-plain", true},
                                         FamilyCase{"gguf/qwen2_q8_0.gguf"}, FamilyCase{"gguf/qwen3.gguf"},
                                         FamilyCase{"gguf/llama_bias.gguf"}, FamilyCase{"gguf/phi3.gguf", true},
                                         FamilyCase{"gguf/phi3_q4_0.gguf"}),
                         [](const auto& param) { return case_name(param.param.model); });

// Below the original context all parts of a run have the short factors.
TEST(FamilyRotation, PartsOfARunHaveTheSameFactors) {
    const TempFolder folder;
    std::string ids = "[5";
    for (int i = 1; i < 30; ++i) ids += fmt::format(",{}", 5 + i % 9 * 11);
    write_file(folder / "ids.json", ids + "]");
    const auto tokens = [&](const Words& more) {
        const ProcessResult r =
            trireme(Words{"generate", "-m", data("tiny/phi3-short"), "--prompt-ids", folder / "ids.json", "-n", "24",
                          "-c", "64", "--temp", "0", "--print", "ids", "--ignore-eos"} +
                    more);
        EXPECT_EQ(r.status, 0) << r.err;
        return r.out;
    };
    const std::string plain = tokens({});
    for (const char* policy : {"streaming", "h2o"}) {  // nothing is evicted
        EXPECT_EQ(tokens({"--kv-policy", policy, "--kv-window", "60", "--kv-positions", "rolling"}), plain) << policy;
    }
    EXPECT_EQ(tokens({"--spec", "h2o", "--kv-window", "60", "--gamma", "3"}), plain);
    // A snapshot's keys are rotated by its run's factors.
    EXPECT_EQ(tokens({"--save-kv", folder / "kv.h5"}), plain);
    const ProcessResult longer =
        trireme({"generate", "-m", data("tiny/phi3-short"), "--load-kv", folder / "kv.h5", "--prompt-ids",
                 folder / "ids.json", "-n", "40", "-c", "256", "--temp", "0", "--print", "ids"});
    EXPECT_EQ(longer.status, 65) << longer.err;
    EXPECT_THAT(error_lines(longer), ElementsAre(HasSubstr("longrope=short")));
}

// A draft's window that is no longer than the model's sees all that it has.
TEST(FamilyDrafts, WithASlidingWindowDraft) {
    const TempFolder folder;
    ASSERT_EQ(trireme({"convert", "-m", data("tiny/mistral-window"), "-o", folder / "draft"}).status, 0);
    std::string config = read_file(folder / "draft/config.json");
    const size_t at = config.find("\"sliding_window\": 32");
    ASSERT_NE(at, std::string::npos) << config;
    config.replace(at, 20, "\"sliding_window\": 128");
    write_file(folder / "draft/config.json", config);
    std::string ids = "[5";
    for (int i = 1; i < 200; ++i) ids += fmt::format(",{}", 5 + i % 9 * 11);
    write_file(folder / "ids.json", ids + "]");
    const auto run = [&](const Words& more) {
        return trireme(Words{"generate", "-m", data("tiny/mistral-window"), "--prompt-ids", folder / "ids.json", "-n",
                             "20", "-c", "300", "--temp", "0", "--print", "ids", "--ignore-eos"} +
                       more);
    };
    const ProcessResult plain = run({}),
                        drafted = run({"--spec", "draft", "-md", folder / "draft", "--draft-window", "128"});
    EXPECT_EQ(drafted.status, 0) << drafted.err;
    EXPECT_EQ(drafted.out, plain.out);
    const ProcessResult wide = run({"--spec", "draft", "-md", folder / "draft", "--draft-window", "256"});
    EXPECT_EQ(wide.status, 65);
    EXPECT_THAT(error_lines(wide), ElementsAre(HasSubstr("128 tokens")));
}

TEST(FamilyConversion, OfAMapThatCannotBeStatedIsRefusedFirst) {
    const TempFolder folder;
    const ProcessResult r =
        trireme({"convert", "-m", data("tiny/phi3-short"), "-o", folder / "to", "--layer-map", "0_0"});
    EXPECT_EQ(r.status, 64);
    EXPECT_THAT(r.err, testing::Not(HasSubstr("writing")));
    // Biases of the layers without keys and values of their own are averaged, and left out, like their weights.
    ASSERT_EQ(trireme({"convert", "-m", data("tiny/llama-bias"), "-o", folder / "mapped", "--layer-map", "0_0"}).status,
              0);
    write_file(folder / "ids.json", "[5, 6, 7]");
    EXPECT_EQ(
        trireme({"generate", "-m", folder / "mapped", "--prompt-ids", folder / "ids.json", "-n", "4", "--print", "ids"})
            .status,
        0);
}

TEST(FamilyLog, NamesWindowsAndRotaryFactors) {
    const TempFolder folder;
    write_file(folder / "ids.json", "[5, 6, 7]");
    const auto log = [&](const char* model, const char* context) {
        return trireme({"generate", "-m", data(model), "--prompt-ids", folder / "ids.json", "-n", "2", "-c", context,
                        "--print", "ids"})
            .err;
    };
    EXPECT_THAT(log("tiny/qwen2-window", "100"), HasSubstr("2 of 3 layers see the last 24 tokens"));
    EXPECT_THAT(log("tiny/phi3-short", "64"), HasSubstr("longrope: short factors"));
    EXPECT_THAT(log("tiny/phi3-short", "65"), HasSubstr("longrope: long factors"));
}

}  // namespace
}  // namespace trireme::test
