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
