// trireme convert -o NAME.gguf and --quantise: files with a model's tokens, and what is refused.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/big_model.h"
#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class ConvertToGguf : public testing::Test {
  protected:
    std::string out(const std::string& name = "out.gguf") const { return folder_ / name; }
    ProcessResult convert(const std::string& from, const std::string& to, const Words& more = {}) const {
        Words words = {"convert", "-m", from, "-o", to};
        words.insert(words.end(), more.begin(), more.end());
        return trireme(words);
    }
    static std::string text(const std::string& m, int ranks = 1) {
        const Words words = {"generate", "-m", m, "-p", "And God said", "-n", "12", "--temp", "0"};
        const ProcessResult r = ranks == 1 ? trireme(words) : trireme_on(ranks, words);
        EXPECT_EQ(r.status, 0) << r.err;
        return r.out;
    }
    TempFolder folder_;
};

TEST_F(ConvertToGguf, IsTheModel) {
    const ProcessResult made = convert(model(), out());
    ASSERT_EQ(made.status, 0) << made.err;
    EXPECT_THAT(folder_.names(), ElementsAre("out.gguf"));
    EXPECT_EQ(text(out()), text(model()));
    EXPECT_EQ(text(out(), 3), text(model()));
    for (const Words& words : {Words{"tokenize", "-p", "And God said"}, Words{"score", "-p", "And God said, Let"}}) {
        const auto with = [&](const std::string& m) {
            Words all = words;
            all.insert(all.begin() + 1, {"-m", m});
            return trireme(all).out;
        };
        EXPECT_EQ(with(out()), with(model())) << words.front();
    }
}

TEST_F(ConvertToGguf, BecomesAFolderWithItsTokenizer) {
    const std::string from = data("gguf/q4_k_m.gguf"), to = out("folder");
    const ProcessResult made = convert(from, to);
    ASSERT_EQ(made.status, 0) << made.err;
    EXPECT_EQ(made.err.find("has no tokenizer"), std::string::npos) << made.err;
    const auto ids = [](const std::string& m) {
        return trireme({"tokenize", "-m", m, "--add-special", "-p", "And God said, \xC3\xA9 1234"}).out;
    };
    EXPECT_EQ(ids(to), ids(from));
}

// A store of a GGUF file keeps its metadata, so that the way back is the same file.
TEST_F(ConvertToGguf, IsTheSameFileByWayOfAStore) {
    for (const char* name : {"q4_k_m", "qwen2_q8_0", "phi3", "llama3"}) {
        SCOPED_TRACE(name);
        const std::string from = std::string(TRIREME_TEST_DATA) + "/gguf/" + name + ".gguf";
        ASSERT_EQ(convert(from, out("direct.gguf"), {"--force"}).status, 0);
        ASSERT_EQ(convert(from, out("m.h5"), {"--force", "--ranks", "2"}).status, 0);
        const ProcessResult back = convert(out("m.h5"), out("back.gguf"), {"--force"});
        ASSERT_EQ(back.status, 0) << back.err;
        EXPECT_EQ(read_file(out("back.gguf")), read_file(out("direct.gguf")));
    }
}

TEST_F(ConvertToGguf, QuantisesForGgufAndStores) {
    for (const char* type : {"Q8_0", "q5_k_m", "Q4_K", "q4_0", "Q3_K_S", "q2_k", "IQ4_XS"}) {
        SCOPED_TRACE(type);
        ASSERT_EQ(convert(model(), out(), {"--quantise", type, "--force"}).status, 0);
        ASSERT_EQ(convert(model(), out("m.h5"), {"--quantize", type, "--force", "--ranks", "2"}).status, 0);
        EXPECT_EQ(text(out()), text(out("m.h5")));
        EXPECT_LT(std::filesystem::file_size(out()), std::filesystem::file_size(out("m.h5")));
    }
    const auto size = std::filesystem::file_size(out());
    ASSERT_EQ(convert(model(), out("plain.gguf")).status, 0);
    EXPECT_LT(size * 2, std::filesystem::file_size(out("plain.gguf")));
    const std::string shared = out("shared.h5");  // an owner's keys and values are means of several layers'
    ASSERT_EQ(convert(model(), shared, {"--layer-map", "0_1_2_4_4_4", "--average", "--quantise", "Q8_0"}).status, 0);
    EXPECT_FALSE(text(shared).empty());
}

TEST_F(ConvertToGguf, SaysWhatIsWrong) {
    struct Case {
        std::string to;
        Words more;
        int status;
        std::vector<std::string> parts;
    };
    const std::string q8 = std::string(TRIREME_TEST_DATA) + "/gguf/q8_0.gguf";
    for (const Case& c : {Case{out(), {"--quantise", "Q9"}, 78, {"--quantise 'Q9'", "Q8_0", "Q4_K_M"}},
                          Case{out("folder"), {"--quantise", "Q8_0"}, 64, {"--quantise Q8_0", "NAME.gguf or NAME.h5"}},
                          Case{out(), {"--quantise", "Q8_0", "--dtype", "f16"}, 64, {"--quantise and --dtype"}},
                          Case{out(), {"--ranks", "2"}, 64, {"--ranks 2", "a GGUF file", "NAME.h5"}},
                          Case{out(), {"--layer-map", "0_1_2_4_4_4"}, 64, {"GGUF file cannot state", "NAME.h5"}},
                          Case{out("m.h5"), {"-m", q8, "--quantise", "Q4_0"}, 64, {"Q8_0", "not quantised again"}}}) {
        const ProcessResult r = convert(model(), c.to, c.more);
        EXPECT_EQ(r.status, c.status) << r.err;
        ASSERT_THAT(error_lines(r), SizeIs(1));
        for (const std::string& part : c.parts) EXPECT_THAT(r.err, HasSubstr(part));
    }
    EXPECT_THAT(folder_.names(), ElementsAre());
}

TEST_F(ConvertToGguf, ReplacesOnlyWithForceAndLeavesTheOldFileAfterASignal) {
    write_file(out(), "mine");
    EXPECT_EQ(convert(model(), out()).status, 73);
    EXPECT_EQ(read_file(out()), "mine");
    make_big_model(folder_ / "big");
    const ProcessResult r = trireme({"convert", "-m", folder_ / "big", "-o", out(), "--force", "--quantise", "Q4_0"},
                                    {.signal_at_output = SIGTERM, .signal_at_error = "writing 11 tensors"});
    EXPECT_EQ(r.status, 128 + SIGTERM) << r.err;
    EXPECT_EQ(read_file(out()), "mine");
    EXPECT_THAT(folder_.names(), ElementsAre("big", "out.gguf"));
    EXPECT_EQ(convert(model(), out(), {"--force"}).status, 0);
    EXPECT_EQ(text(out()), text(model()));
}

}  // namespace
}  // namespace trireme::test
