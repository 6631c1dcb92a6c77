// `trireme plan`, and the refusal of runs, where memory is short: what comes closest, what it lacks, what would help.

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Words plan(Words more) {
    Words words = {"plan", "-m", TRIREME_CONFIGS "/models/llama-2-7b-128k", "-c", "131072", "--device", "cuda"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

/// The first "FLAG 123M" that a text suggests.
std::string suggested(const std::string& text, const std::string& flag) {
    std::smatch found;
    return std::regex_search(text, found, std::regex(flag + " ([0-9]+M)")) ? found[1].str() : "";
}

// 28 layers fit the device; the other four take 8 GiB of the host, which has 0.7 GiB less than all would take.
TEST(PlanCommand, TellsThePlanThatComesClosestAndWhatItLacks) {
    const ProcessResult fits = trireme(plan({"--device-memory", "72G", "--host-memory", "64G"}));
    ASSERT_EQ(fits.status, 0) << fits.err;
    std::smatch host;
    ASSERT_TRUE(std::regex_search(fits.out, host, std::regex("host: ([0-9.]+) of 64")));
    const auto mib = static_cast<int64_t>(std::stod(host[1]) * 1024 - 0.7 * 1024);

    const ProcessResult r = trireme(plan({"--device-memory", "72G", "--host-memory", std::to_string(mib) + "M"}));

    EXPECT_EQ(r.status, 71);
    std::smatch layers;
    ASSERT_TRUE(std::regex_search(fits.out, layers, std::regex("[0-9]+ of 32 layers")));
    EXPECT_THAT(r.out, HasSubstr(layers[0].str()));
    EXPECT_THAT(r.out, testing::ContainsRegex("closest plan lacks 0\\.(69|70|71)[0-9] GiB of host memory"));
    EXPECT_THAT(error_lines(r),
                ElementsAre(testing::ContainsRegex("host memory: .* MiB allowed, 7[0-9][0-9]\\.. MiB")));
}

TEST(PlanCommand, SuggestsMemoryThatWouldHelp) {
    for (const std::string flag : {"--host-memory", "--device-memory"}) {
        const auto with = [&](const std::string& bytes) {
            return plan({flag, bytes, flag == "--host-memory" ? "--device-memory" : "--host-memory", "32G"});
        };
        const ProcessResult r = trireme(with("8G"));
        ASSERT_EQ(r.status, 71);
        const std::string enough = suggested(r.out, flag);
        ASSERT_NE(enough, "") << r.out;
        EXPECT_EQ(trireme(with(enough)).status, 0) << enough;
        const std::string less = std::to_string(std::stoll(enough) - 2) + "M";
        EXPECT_EQ(trireme(with(less)).status, 71) << less;
        EXPECT_EQ(suggested(error_lines(r).at(0), flag), enough) << "the error line";
    }
}

TEST(PlanCommand, IsForTheRanksThatWereStarted) {
    const Words words = plan({"--device-memory", "64G", "--host-memory", "64G"});
    const auto for_ranks = [&](const char* ranks) {
        Words more = words;
        more.insert(more.end(), {"--ranks", ranks});
        return more;
    };
    EXPECT_EQ(trireme(words).out, trireme(for_ranks("1")).out);
    EXPECT_EQ(trireme_on(2, words).out, trireme(for_ranks("2")).out);
    EXPECT_EQ(trireme_on(2, for_ranks("4")).out, trireme(for_ranks("4")).out);
}

TEST(Residency, ARefusedRunSaysWhichAllowanceToRaise) {
    const auto run = [](const std::string& host, const std::string& device) {
        return trireme({"generate", "-m", model(), "-p", "x", "-t", "1", "--kv-on-chip", "2", "--host-memory", host,
                        "--device-memory", device});
    };
    const ProcessResult host = run("1M", "1G"), device = run("1G", "1M");
    for (const auto& [r, flag] : {std::pair(host, "--host-memory"), std::pair(device, "--device-memory")}) {
        EXPECT_EQ(r.status, 71);
        ASSERT_EQ(error_lines(r).size(), 1u) << r.err;
        EXPECT_NE(suggested(error_lines(r)[0], flag), "") << r.err;
    }
    EXPECT_EQ(run(suggested(host.err, "--host-memory"), "1G").status, 0);
    EXPECT_EQ(run("1G", suggested(device.err, "--device-memory")).status, 0);

    // Where no flag limits it there is no more of it to be had.
    const ProcessResult machine =
        trireme({"generate", "-m", model(), "-p", "x", "-t", "1", "--kv-on-chip", "2", "--device-memory", "1M"});
    EXPECT_THAT(machine.err, Not(HasSubstr("--host-memory")));
}

}  // namespace
}  // namespace trireme::test
