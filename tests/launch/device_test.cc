// --device, as a user sees it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

// True if this machine has no GPU. Tests that require that are skipped otherwise.
bool no_card() {
    return trireme_process({"--list-devices"}).out.find("cuda:0") == std::string::npos;
}

Words request(const std::string& device) {
    return {"generate", "-m",  model(), "-p",  "In the beginning", "-n",  "5",        "--temp", "0", "--dtype", "f32",
            "-ctk",     "f32", "-ctv",  "f32", "--print",          "ids", "--device", device};
}

TEST(Device, ACardThatIsNotThereIsOneLineAndCode69) {
    if (!no_card()) GTEST_SKIP() << "there is a GPU";
    for (const char* device : {"cuda", "cuda:1"}) {
        for (const int ranks : {1, 2}) {
            const ProcessResult r = ranks == 1 ? trireme_process(request(device)) : trireme_on(ranks, request(device));
            EXPECT_EQ(r.status, 69);
            EXPECT_EQ(r.out, "");
            ASSERT_EQ(error_lines(r).size(), 1u) << r.err;
            EXPECT_THAT(error_lines(r)[0], HasSubstr(fmt::format("--device {}: ", device)));
        }
    }
}

// A GPU that cannot be used is logged (driver_test.cc); the absence of a GPU is not.
TEST(Device, AutoOnAMachineWithoutADriverIsTheCpu) {
    if (!no_card()) GTEST_SKIP() << "there is a GPU";
    for (const int ranks : {1, 2}) {
        Words words = request("auto");
        const ProcessResult plain = ranks == 1 ? trireme_process(words) : trireme_on(ranks, words);
        words.insert(words.end(), {"-lv", "debug"});
        const ProcessResult debug = ranks == 1 ? trireme_process(words) : trireme_on(ranks, words);

        EXPECT_EQ(plain.status, 0) << plain.err;
        EXPECT_THAT(plain.err, HasSubstr("s] device cpu\n"));
        EXPECT_EQ(plain.err.find("driver"), std::string::npos) << plain.err;
        EXPECT_THAT(debug.err, HasSubstr("s] device cpu\n"));
        EXPECT_THAT(debug.err, HasSubstr("no GPU: "));
    }
}

TEST(Device, AnUnknownNameIsRefused) {
    for (const char* device : {"gpu", "cuda:", "cuda:x", "cuda:-1", "simt"}) {
        EXPECT_EQ(trireme_process(request(device)).status, 78) << device;
    }
}

TEST(Device, TheKernelsOfTheGpuGiveTheTokensOfTheCpu) {
    const std::string cpu = trireme_process(request("cpu")).out;
    ASSERT_FALSE(cpu.empty());
    for (const bool graphs : {true, false}) {
        Words words = request("simt");
        if (!graphs) words.emplace_back("--no-graphs");
        words.insert(words.begin(), TRIREME_WITH_SIMT);
        const ProcessResult alone = run_process(words, {});
        EXPECT_EQ(alone.status, 0) << alone.err;
        EXPECT_EQ(alone.out, cpu);
        const Words two = {TRIREME_MPIEXEC, "--allow-run-as-root", "--oversubscribe", "-n", "2"};
        words.insert(words.begin(), two.begin(), two.end());
        const ProcessResult ranks = run_mpirun(words);
        EXPECT_EQ(ranks.status, 0) << ranks.err;
        EXPECT_EQ(ranks.out, cpu);
    }
}

TEST(Device, TheKernelsOfTheGpuGrowTheTreesOfTheCpu) {
    const auto tree = [](const std::string& device) {
        Words words = request(device);
        words.insert(words.end(), {"--temp", "0.8", "--spec", "tree", "--tree-size", "12", "--gamma", "3"});
        return words;
    };
    Words words = tree("simt");
    words.insert(words.begin(), TRIREME_WITH_SIMT);
    const ProcessResult simt = run_process(words, {});
    EXPECT_EQ(simt.status, 0) << simt.err;
    EXPECT_EQ(simt.out, trireme_process(tree("cpu")).out);
}

}  // namespace
}  // namespace trireme::test
