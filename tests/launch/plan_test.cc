// `trireme plan` and refused runs with too little memory: the closest plan, the missing bytes, changes that would help.

#include <cmath>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/numbers.h"
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

// 28 layers fit on the device; the other four take 8 GiB of host memory, of which 0.7 GiB is missing.
TEST(PlanCommand, PrintsTheClosestPlanAndWhatItLacks) {
    const ProcessResult fits = trireme(plan({"--kv-wire", "raw", "--device-memory", "72G", "--host-memory", "64G"}));
    ASSERT_EQ(fits.status, 0) << fits.err;
    std::smatch host;
    ASSERT_TRUE(std::regex_search(fits.out, host, std::regex("host: ([0-9.]+) of 64")));
    const auto mib = static_cast<int64_t>(std::stod(host[1]) * 1024 - 0.7 * 1024);

    const ProcessResult r =
        trireme(plan({"--kv-wire", "raw", "--device-memory", "72G", "--host-memory", std::to_string(mib) + "M"}));

    EXPECT_EQ(r.status, 71);
    std::smatch layers;
    ASSERT_TRUE(std::regex_search(fits.out, layers, std::regex("[0-9]+ of 32 layers")));
    EXPECT_THAT(r.out, HasSubstr(layers[0].str()));
    EXPECT_THAT(r.out, testing::ContainsRegex("lacks 0\\.(69|70|71)[0-9] GiB of host memory"));
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

    // No flag limits host memory here, so --host-memory cannot give more of it.
    const ProcessResult machine =
        trireme({"generate", "-m", model(), "-p", "x", "-t", "1", "--kv-on-chip", "2", "--device-memory", "1M"});
    EXPECT_THAT(machine.err, Not(HasSubstr("--host-memory")));
}

const Words kTwoCards = {"--ranks",       "2",   "--device-memory", "24G", "--host-memory", "96G",
                         "--device-gbps", "900", "--link-gbps",     "25",  "--kv-on-chip",  "9"};

// triforce.md 3.8: two 4090s with nine of 32 layers on chip verify 16 tokens per round in about 965 ms.
TEST(PlanCommand, ForecastsARound) {
    const Words spec = {"--spec", "triforce",      "-md", data("models/kjv-draft"), "--budget",  "12288", "--gamma",
                        "16",     "--gamma-inner", "1",   "--accept-rate",          "0.957,0.35"};
    Words words = kTwoCards;
    words.insert(words.end(), spec.begin(), spec.end());
    const ProcessResult r = trireme(plan(words));
    ASSERT_EQ(r.status, 0) << r.err;
    const double plain = number_after(r.out, "a decode step at context length 131072: ");
    EXPECT_NEAR(number_after(r.out, "verify_ms "), plain, 0.05 * plain);
    EXPECT_NEAR(number_after(r.out, "retrieval    "), 12.04, 0.02);
    EXPECT_NEAR(number_after(r.out, ") for "), (1 - std::pow(0.957, 17)) / (1 - 0.957), 0.01);
    const double round = number_after(r.out, "0.957 accepted\n  "),
                 token = number_after(r.out, " for 12.24 tokens\n  ");
    EXPECT_GT(round, plain);
    // Plain decoding has 16 layers on chip, because it needs no memory for speculation.
    const double best = number_after(r.out, "none@auto: plain decoding, 16 layers on chip, ");
    EXPECT_LT(best, 0.75 * plain);
    EXPECT_NEAR(number_after(r.out.substr(r.out.find("a round of ")), " tok/s)\n  "), best / token,
                0.01 * best / token);

    // 12 forwards of the middle level, each of which reads 6.7 GB of weights and 12.5K tokens on two GPUs.
    EXPECT_NEAR(number_after(r.out, "draft_ms "), 12 * 11, 30) << r.out;
}

TEST(PlanCommand, ForecastsByMeasuredCosts) {
    const TempFolder folder;
    write_file(folder / "report.json",
               R"({"spec_costs": [{"level": "full", "rows": [1, 32], "ms": [40, 50]},
                                  {"level": "retrieval", "rows": [1, 2], "ms": [20, 21]},
                                  {"level": "draft", "rows": [1], "ms": [0.5]}]})");
    Words words = {"--device-memory",
                   "200G",
                   "--host-memory",
                   "8G",
                   "--kv-on-chip",
                   "all",
                   "--spec",
                   "triforce",
                   "-md",
                   data("models/kjv-draft"),
                   "--gamma",
                   "6",
                   "--gamma-inner",
                   "1",
                   "--accept-rate",
                   "0.904,0.21",
                   "--spec-costs",
                   folder / "report.json"};
    const ProcessResult r = trireme(plan(words));
    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_NEAR(number_after(r.out, "a decode step at context length 131072: "), 40, 0.01);
    EXPECT_NEAR(number_after(r.out, "verify_ms "), 40 + 10.0 * 6 / 31, 0.02);  // 7 rows
    EXPECT_NEAR(number_after(r.out, "draft_ms "), 5.10 * 21.5, 1.6);  // the last round of a proposal may be shorter

    words.resize(words.size() - 2);
    EXPECT_THAT(trireme(plan(words)).out, Not(HasSubstr("draft_ms"))) << "no rate of the device is known";
}

// Layers 1 to 4 read the KV of layer 4. Verifying four rows takes four passes over these layers; three of the passes
// end with the keys and values of layer 4.
TEST(PlanCommand, CountsThePassesOfAProposal) {
    const ProcessResult r =
        trireme({"plan", "-m", data("models/kjv-lckv"), "-c", "1024", "--dtype", "f16", "--device-memory", "1G",
                 "--device-gbps", "0.001", "--spec", "ngram", "--gamma", "3", "--accept-rate", "0.5"});
    ASSERT_EQ(r.status, 0) << r.err;
    const double q = 128 * 128, kv = 2 * 64 * 128, rest = 128 * 128 + 3 * 352 * 128, norm = 4 * 128;
    const double attention = 1024 * 2 * 2 * 32 * 2;  // keys and values of 1,024 tokens
    const double once = 2 * (1024 * 128 + 3 * (q + kv + rest) + 3 * (q + rest)) + 13 * norm + 6 * attention;
    const double again = 2 * (3 * (q + rest) + q + kv) + 7 * norm + 3 * attention;
    EXPECT_NEAR(number_after(r.out, "a decode step at context length 1024: "), once * 1e-3, 0.01);
    EXPECT_NEAR(number_after(r.out, "verify_ms "), (once + 3 * again) * 1e-3, 0.01);
}

TEST(PlanCommand, RequiresARateOfEachLevel) {
    for (const auto& [chain, rates] : {std::pair{"ngram", "0.5,0.5"}, {"ngram+retrieval+full", "0.9"}, {"none", "1"}}) {
        const ProcessResult r = trireme(plan({"--spec", chain, "--accept-rate", rates}));
        EXPECT_EQ(r.status, 64) << chain;
        EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("--accept-rate: ")));
    }
    EXPECT_EQ(trireme(plan({"--spec", "ngram", "--accept-rate", "1.5"})).status, 78);
    const ProcessResult r = trireme(plan({"--spec", "draft"}));
    EXPECT_EQ(r.status, 64);
    EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("-md PATH")));
}

// The plan includes a window of the model's own KV; on two ranks each holds half of it.
TEST(PlanCommand, CountsAWindow) {
    const auto proposing = [](const char* ranks) {
        const ProcessResult r = trireme(plan({"--spec", "window", "--draft-window", "4096", "--ranks", ranks,
                                              "--device-memory", "90G", "--host-memory", "90G"}));
        EXPECT_EQ(r.status, 0) << r.err;
        return number_after(r.out, "levels that propose");
    };
    EXPECT_NEAR(proposing("1"), 2.3, 0.3);  // 4,096 tokens of 512 KiB; activations
    EXPECT_LT(proposing("2"), 0.75 * proposing("1"));
}

TEST(PlanCommand, WarnsBeyondTheModelsContext) {
    const Words words = {"plan", "-m", data("models/kjv-target"), "--device", "cpu"};
    Words more = words;
    more.insert(more.end(), {"-c", "100000"});
    EXPECT_THAT(trireme(more).err, HasSubstr("context is 2048 tokens"));
    EXPECT_EQ(trireme(words).err, "");
}

// Parallel samples share the prompt's tiles. `auto` is the largest number that fits.
TEST(PlanCommand, HasRoomForTextsSideBySide) {
    const auto plan = [](const Words& more) {
        Words words = {
            "plan",          "-m", TRIREME_CONFIGS "/models/llama-2-7b-128k", "-c", "4096", "--device-memory", "24G",
            "--host-memory", "64G"};
        words.insert(words.end(), more.begin(), more.end());
        return trireme(words);
    };
    const ProcessResult most = plan({"-np", "auto", "--prefill", "2048"});
    EXPECT_EQ(most.status, 0) << most.err;
    EXPECT_THAT(most.out, HasSubstr("10 parallel sequences that share 2048 tokens"));
    EXPECT_THAT(most.out, HasSubstr("11.000 GiB  32 of 32 layers"));  // 2,048 + 10 x 2,048 tokens of 512 KiB
    const ProcessResult more = plan({"-np", "11", "--prefill", "2048", "--kv-on-chip", "all"});
    EXPECT_EQ(more.status, 71);
    EXPECT_THAT(more.out, HasSubstr("--parallel 10\n"));
    EXPECT_EQ(plan({"-np", "11", "--prefill", "2048"}).status, 0);
    EXPECT_EQ(plan({"-np", "2,3"}).status, 78);
    // Each sequence has a retrieved set, and levels that propose.
    const auto triforce = [&](const char* parallel) {
        const ProcessResult r = plan({"-np", parallel, "--prefill", "2048", "--spec", "retrieval", "--budget", "1024"});
        EXPECT_EQ(r.status, 0) << r.err;
        return r.out;
    };
    EXPECT_THAT(triforce("1"), HasSubstr("retrieved                       0.875 GiB"));
    EXPECT_THAT(triforce("4"), HasSubstr("retrieved                       3.501 GiB"));
    const ProcessResult timed =
        plan({"-np", "10", "--prefill", "2048", "--kv-on-chip", "all", "--device-gbps", "900", "--link-gbps", "25"});
    EXPECT_THAT(timed.out, HasSubstr("a decode step of 10 texts at context length 4096: "));
}

// Owners whose readers are not consecutive layers are held on the device; the plan names those that are not.
TEST(PlanCommand, NamesOwnersThatCrossTheLinkMoreThanOnce) {
    const auto plan = [](const std::string& memory) {
        return trireme({"plan", "-m", model(), "--layer-map", "0_1_0_1_0_1", "-c", "2000", "--kv-on-chip", "0",
                        "--device-memory", memory, "--host-memory", "1G"});
    };
    const ProcessResult held = plan("1G");
    EXPECT_EQ(held.status, 0) << held.err;
    EXPECT_THAT(held.out, HasSubstr("held from first to last reader: layers 0, 1\n"));
    EXPECT_THAT(held.out, Not(HasSubstr("more than once")));
    // The memory is just too small for a frame.
    int tight = 1;
    while (plan(std::to_string(tight) + "K").status != 0) tight += 64;
    const ProcessResult r = plan(std::to_string(tight) + "K");
    EXPECT_THAT(r.out, HasSubstr("crossing the link more than once a forward: layers 0 (3 times), 1 (3 times)\n"));
    EXPECT_THAT(r.out, HasSubstr("layers on chip: none"));
}

}  // namespace
}  // namespace trireme::test
