// `trireme plan` for machines that are described by flags: TriForce's runs on its GPUs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/numbers.h"
#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

const std::string kConfigs = TRIREME_CONFIGS, kLlama7b = kConfigs + "/models/llama-2-7b-128k",
                  kLlama68m = kConfigs + "/models/llama-68m";
const Words kRtx4090 = {"--device-memory", "24052M", "--device-gbps", "900", "--link-gbps", "25.4", "--link-us", "10"};

ProcessResult plan_for_4090(const Words& more) {
    Words words = {"plan", "-m", kLlama7b};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), kRtx4090.begin(), kRtx4090.end());
    return trireme(words);
}

// TriForce's measured baseline (reference triforce.md 3.8): 12 layers on chip.
TEST(Plan, OfTwoRtx4090IsTheKnownBaseline) {
    const ProcessResult r =
        plan_for_4090({"-c", "130048", "--ranks", "2", "--device", "cuda", "--kv-on-chip", "12", "--kv-wire", "raw"});
    ASSERT_EQ(r.status, 0) << r.err << r.out;
    EXPECT_NEAR(number_after(r.out, "130048: "), 840, 0.05 * 840);
    EXPECT_THAT(r.out, HasSubstr("pinned; no limit (--host-memory)"));
    const double device = number_after(r.out, "device: "), host = number_after(r.out, "host: ");
    EXPECT_NEAR(number_after(r.out, "all 2 ranks: device "), 2 * device, 0.002);
    EXPECT_NEAR(number_after(r.out.substr(r.out.find("all 2 ranks")), "host "), 2 * host, 0.002);
}

// Coded tiles take 11.34 of 16 bits.
TEST(Plan, OfCodedTilesIsFasterByWhatTheySave) {
    const Words run = {"-c",           "130048", "--ranks",          "2",   "--device", "cuda",
                       "--kv-on-chip", "12",     "--kv-cache-dtype", "bf16"};
    const auto ms = [&](const char* wire) {
        Words words = run;
        words.insert(words.end(), {"--kv-wire", wire});
        return number_after(plan_for_4090(words).out, "130048: ");
    };
    EXPECT_NEAR(ms("coded"), ms("raw") / 1.41, 0.02 * ms("raw"));
    EXPECT_EQ(ms("auto"), ms("coded"));
}

// TriForce's three runs (reference triforce.md 6), planned with their configuration files.
TEST(Plan, OfTriForcesRunsByTheirConfigs) {
    const auto by = [](const std::string& name, const Words& more = {}) {
        Words words = {"--config", kConfigs + "/triforce-" + name + ".ini", "-md", kLlama68m};
        words.insert(words.end(), more.begin(), more.end());
        return plan_for_4090(words);
    };
    const ProcessResult two = by("2-gpu", {"--kv-wire", "raw"});
    EXPECT_EQ(two.status, 0) << two.err;
    EXPECT_THAT(two.out, HasSubstr("130304 tokens, 2 ranks"));
    EXPECT_THAT(two.out, HasSubstr("9 of 32 layers"));
    EXPECT_THAT(two.out, HasSubstr("chunk summaries                 1.988 GiB  one for 8 tokens"));
    EXPECT_THAT(two.out, HasSubstr("batches of them; the rest is on the host"));
    // Speed-up over plain decoding, with the most layers that fit without speculation, and with TriForce's 12.
    const double token = number_after(two.out, " for 12.24 tokens\n  "),
                 best = number_after(two.out, " times none@auto: plain decoding, ");
    EXPECT_GT(best, 12);
    const double ms = number_after(two.out.substr(two.out.find("none@auto")), "layers on chip, ");
    EXPECT_NEAR(number_after(two.out.substr(two.out.find("a round of ")), " tok/s)\n  "), ms / token, 0.02);
    EXPECT_NEAR(number_after(two.out.substr(two.out.find("none@12")), "layers on chip, "), 840, 0.05 * 840);

    const ProcessResult one = by("1-gpu");
    EXPECT_EQ(one.status, 0) << one.err;
    EXPECT_THAT(one.out, HasSubstr("layers on chip: none"));

    Words large = {"plan",    "--config",        kConfigs + "/triforce-on-chip.ini",
                   "-m",      kLlama7b,          "-md",
                   kLlama68m, "--device-memory", "80G"};
    EXPECT_EQ(trireme(large).status, 0);
    const ProcessResult small = by("on-chip");  // this file is for a GPU of 80 GB
    EXPECT_EQ(small.status, 71);
    EXPECT_THAT(small.out, HasSubstr("does not fit; it would with one of\n  --kv-on-chip "));
    EXPECT_EQ(error_lines(small).size(), 1u) << small.err;
}

TEST(Plan, WithoutSpeculationCountsNone) {
    const Words run = {"-c", "130304", "--ranks", "2", "--device", "cuda"},
                spec = {"--budget", "12288", "-md", kLlama68m};
    Words with = run;
    with.insert(with.end(), spec.begin(), spec.end());
    EXPECT_EQ(plan_for_4090(with).out, plan_for_4090(run).out);
    with.insert(with.end(), {"--spec", "triforce", "--kv-on-chip", "9"});
    EXPECT_THAT(plan_for_4090(with).out, HasSubstr("retrieved"));
}

// Without re-selection, the retrieval cache has budget + window + n slots.
TEST(Plan, ChoosingOnceKeepsWhatIsGeneratedToo) {
    const auto retrieved = [](const Words& more) {
        Words words = {"-c",     "130304",    "--ranks",  "2",     "--device",     "cuda",
                       "--spec", "retrieval", "--budget", "12288", "--kv-on-chip", "3"};
        words.insert(words.end(), more.begin(), more.end());
        const ProcessResult r = plan_for_4090(words);
        return number_after(r.out, "retrieved ");
    };
    EXPECT_NEAR(retrieved({"--reselect", "never", "-n", "256"}), retrieved({}), 0.1);
    EXPECT_GT(retrieved({"--reselect", "never"}), 5 * retrieved({}));
}

TEST(Plan, CountsRowsPrefillAndAllReduces) {
    const auto step = [](const Words& more) {
        Words words = {"-c", "8192", "--ranks", "2", "--device", "cuda"};
        words.insert(words.end(), more.begin(), more.end());
        return plan_for_4090(words).out;
    };
    const double plain = number_after(step({}), "at context length 8192: ");
    EXPECT_NEAR(number_after(step({"--reduce-us", "50"}), "at context length 8192: "), plain + 64 * 0.05, 0.05);
    // One row fills a tile of 16 vectors, and f16 takes two products for one of f32's precision.
    EXPECT_NEAR(number_after(step({"--device-tflops", "0.1"}), "at context length 8192: "),
                (2 * 6.6e9 / 2 + 16 * 2 * 4.0 * 8192 * 32 * 2048) / 0.1e12 * 1e3, 2);
    EXPECT_THAT(step({}), HasSubstr("a prefill: give --device-tflops for its time"));
    const std::string prefill = step({"--device-tflops", "80"});
    // Operations per rank: half of 2 x 6.7e9 x 8192 for the weights, and 2 n^2 for each of 2048 columns in 32 layers.
    EXPECT_NEAR(number_after(prefill, "a prefill of 8192 tokens: "),
                (6.7e9 * 8192 + 2.0 * 8192 * 8192 * 32 * 2048) / 80e12, 0.1);
    Words verify = {"--spec", "ngram", "--gamma", "16", "--accept-rate", "0.8"};
    const double round = number_after(step(verify), "verify_ms ");
    verify.insert(verify.end(), {"--device-tflops", "5"});
    EXPECT_GT(number_after(step(verify), "verify_ms "), 1.2 * round);
}

}  // namespace
}  // namespace trireme::test
