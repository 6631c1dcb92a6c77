// Files that the demo reads in addition to the demo model: its draft and its long text. TRIREME_DEMO_MODEL names the
// model; without it, tests that need it are reported as skipped.

#include <algorithm>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;

const std::string kDraft = TRIREME_CONFIGS "/models/smol-draft";
const std::string kDemoText = TRIREME_CONFIGS "/texts/kjv_end.txt";

std::string demo_model() {
    const char* path = std::getenv("TRIREME_DEMO_MODEL");
    return path == nullptr ? "" : path;
}

TEST(SmolDraft, IsAWholeModel) {
    const TempFolder folder;
    write_file(folder / "ids.json", "[504, 2240, 314, 260]");

    const ProcessResult r = trireme({"generate", "-m", kDraft, "--prompt-ids", folder / "ids.json", "--print", "ids",
                                     "-n", "8", "--temp", "0", "--ignore-eos", "-t", "1"});

    ASSERT_EQ(r.status, 0) << r.err;
    const std::vector<int64_t> ids = json::parse(r.out);
    EXPECT_EQ(ids.size(), 8u);
    EXPECT_LT(*std::max_element(ids.begin(), ids.end()), 49152);
}

// No proposal of a draft for another model, or of random weights, would be accepted.
TEST(SmolDraft, ProposesWhatTheDemoModelSays) {
    if (demo_model().empty()) GTEST_SKIP() << "TRIREME_DEMO_MODEL is not set: no demo model";

    const ProcessResult r = trireme({"bench",   "-m",      demo_model(), "-md",        kDraft,
                                     "-f",      kDemoText, "--prefill",  "300",        "-n",
                                     "48",      "-r",      "1",          "--temp",     "0",
                                     "--gamma", "4",       "--modes",    "none,draft", "--require-exact",
                                     "-o",      "json"});

    ASSERT_EQ(r.status, 0) << r.err;
    // If every second token is accepted, a round of four gives 1.9 tokens; if none is, 1.
    EXPECT_GT(json::parse(r.out)[1]["accept_len"], 1.4);
}

TEST(DemoText, IsLongEnoughForTheSpeedTable) {
    if (demo_model().empty()) GTEST_SKIP() << "TRIREME_DEMO_MODEL is not set: no demo model";

    const ProcessResult r = trireme({"tokenize", "-m", demo_model(), "-f", kDemoText});

    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_GE(json::parse(r.out).size(), 7680u);
}

// A short version of the last step of demo.sh: the same tokens, and fewer bytes over the link.
TEST(DemoSpeed, ComparesPlainDecodingWithTriforce) {
    if (demo_model().empty()) GTEST_SKIP() << "TRIREME_DEMO_MODEL is not set: no demo model";

    const ProcessResult r =
        trireme({"bench", "--config", TRIREME_CONFIGS "/demo-speed.ini", "-m", demo_model(), "-f", kDemoText, "-md",
                 kDraft, "--prefill", "900", "-n", "16", "--budget", "64", "--link-gbps", "2", "-o", "json"});

    ASSERT_EQ(r.status, 0) << r.err;
    const json table = json::parse(r.out);
    ASSERT_EQ(table.size(), 2u);
    EXPECT_EQ(table[0]["mode"], "none");
    EXPECT_EQ(table[1]["mode"], "triforce");
    EXPECT_EQ(table[1]["exact"], true);
    EXPECT_LT(table[1]["h2d_bytes"], table[0]["h2d_bytes"]);
}

}  // namespace
}  // namespace trireme::test
