// trireme convert -o NAME.h5: one file with a whole model, which appears complete or not at all.

#include <csignal>
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

class ConvertToStore : public testing::Test {
  protected:
    std::string out() const { return folder_ / "out.h5"; }
    Words command(const Words& more = {}) const {
        Words words = {"convert", "-m", model(), "-o", out()};
        words.insert(words.end(), more.begin(), more.end());
        return words;
    }
    TempFolder folder_;
};

TEST_F(ConvertToStore, IsAModelForEveryCommand) {
    const ProcessResult made = trireme(command({"--ranks", "2"}));
    ASSERT_EQ(made.status, 0) << made.err;
    EXPECT_THAT(folder_.names(), ElementsAre("out.h5"));
    const auto with = [](const std::string& m, const Words& words, int ranks) {
        Words all = words;
        all.insert(all.begin() + 1, {"-m", m});
        const ProcessResult r = ranks == 1 ? trireme(all) : trireme_on(ranks, all);
        EXPECT_EQ(r.status, 0) << r.err;
        return r.out;
    };
    for (const int ranks : {1, 2, 3}) {
        const Words words = {"generate", "-p", "And God said", "-n", "9", "--temp", "0"};
        EXPECT_EQ(with(out(), words, ranks), with(model(), words, ranks)) << ranks;
    }
    for (const Words& words : {Words{"tokenize", "-p", "And God said"}, Words{"score", "-p", "And God said, Let"},
                               Words{"plan", "-c", "512", "--ranks", "2", "--device-memory", "1G", "--host-memory",
                                     "1G"},  // free memory differs between runs
                               Words{"generate", "-p", "In the", "-n", "6", "--spec", "draft", "-md", out()}}) {
        const std::string stored = with(out(), words, 1);
        EXPECT_FALSE(stored.empty());
        if (words.back() != out()) {
            EXPECT_EQ(stored, with(model(), words, 1)) << words.front();
        }
    }
}

TEST_F(ConvertToStore, ReplacesOnlyWithForce) {
    write_file(out(), "mine");
    const ProcessResult refused = trireme(command());
    EXPECT_EQ(refused.status, 73) << refused.err;
    EXPECT_THAT(error_lines(refused), SizeIs(1));
    EXPECT_EQ(read_file(out()), "mine");
    EXPECT_EQ(trireme(command({"--force"})).status, 0);
    EXPECT_EQ(trireme({"tokenize", "-m", out(), "-p", "a"}).status, 0);
}

TEST_F(ConvertToStore, LeavesTheOldFileAfterASignalOrAKill) {
    write_file(out(), "mine");
    make_big_model(folder_ / "big");
    const Words words = {"convert", "-m", folder_ / "big", "-o", out(), "--force"};
    for (const int number : {SIGTERM, SIGINT, SIGKILL}) {
        const ProcessResult r = trireme(words, {.signal_at_output = number, .signal_at_error = "writing 11 tensors"});
        EXPECT_EQ(r.status, 128 + number) << r.err;
        EXPECT_EQ(read_file(out()), "mine");
        if (number != SIGKILL) {
            EXPECT_THAT(folder_.names(), ElementsAre("big", "out.h5"));
        }
    }
    EXPECT_EQ(trireme(command({"--force"})).status, 0);
    EXPECT_THAT(folder_.names(), ElementsAre("big", "out.h5"));  // the killed run's temporary file is removed
}

TEST_F(ConvertToStore, RefusesInOneLine) {
    const auto refused = [](const Words& words, int status, const std::string& text) {
        const ProcessResult r = trireme(words);
        EXPECT_EQ(r.status, status) << r.err;
        EXPECT_THAT(error_lines(r), SizeIs(1)) << r.err;
        EXPECT_THAT(r.err, HasSubstr(text));
    };
    refused({"convert", "-m", model(), "-o", folder_ / "folder", "--ranks", "2"}, 64, "want -o NAME.h5");
    refused(command({"--ranks", "5"}), 78, "5");
    ASSERT_EQ(trireme(command()).status, 0);
    std::string bytes = read_file(out());
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file(folder_ / "bad.h5", bytes);
    refused({"generate", "-m", folder_ / "bad.h5", "-p", "a", "-n", "1"}, 65, "bad.h5");
    write_file(folder_ / "cut.h5", read_file(out()).substr(0, bytes.size() - 9));
    refused({"generate", "-m", folder_ / "cut.h5", "-p", "a", "-n", "1"}, 65, "cut.h5");
}

}  // namespace
}  // namespace trireme::test
