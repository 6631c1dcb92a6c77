// The seed that a run reports, and a report on stdout.

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

Words generate(const Words& more) {
    Words words = {"generate", "-m", model(), "-p", "In the beginning", "-n", "12", "-t", "1", "--temp", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

TEST(DrawnSeed, IsTheSameOnEveryRankAndIsReported) {
    std::set<std::string> seeds;
    for (const int ranks : {1, 1, 2}) {
        const TempFolder folder;
        const Words words = generate({"--seed", "-1", "--report-json", folder / "r.json", "--dtype", "f32"});
        const ProcessResult drawn = ranks == 1 ? trireme(words) : trireme_on(ranks, words);
        ASSERT_EQ(drawn.status, 0) << drawn.err;
        std::smatch found;
        ASSERT_TRUE(std::regex_search(drawn.err, found, std::regex("seed ([0-9]+), drawn"))) << drawn.err;
        const std::string seed = found[1];
        EXPECT_TRUE(seeds.insert(seed).second) << seed;

        const json report = json::parse(read_file(folder / "r.json"));
        EXPECT_EQ(report["settings"]["seed"], seed);
        EXPECT_EQ(report["seed"].dump(), seed);

        const Words again = generate({"--seed", seed, "--dtype", "f32"});
        const ProcessResult repeated = ranks == 1 ? trireme(again) : trireme_on(ranks, again);
        EXPECT_EQ(repeated.out, drawn.out);
        EXPECT_EQ(repeated.err.find(", drawn"), std::string::npos);
    }
}

TEST(ReportOnStdout, IsAloneThere) {
    const Words seed = {"--seed", "5", "--num-samples", "2"};
    for (const int ranks : {1, 2}) {
        Words to_stdout = generate(seed), ids = generate(seed);
        to_stdout.insert(to_stdout.end(), {"--report-json", "-"});
        ids.insert(ids.end(), {"--print", "ids"});
        const ProcessResult r = ranks == 1 ? trireme(to_stdout) : trireme_on(ranks, to_stdout);
        const ProcessResult printed = ranks == 1 ? trireme(ids) : trireme_on(ranks, ids);

        ASSERT_EQ(r.status, 0) << r.err;
        const json report = json::parse(r.out, nullptr, /*allow_exceptions=*/false);
        ASSERT_TRUE(report.is_object()) << r.out;
        ASSERT_THAT(report["samples"], SizeIs(2));
        for (size_t i = 0; i < 2; ++i) {
            EXPECT_EQ(report["samples"][i]["ids"], json::parse(lines_of(printed.out).at(i)));
            EXPECT_TRUE(report["samples"][i]["text"].is_string());
        }
        EXPECT_THAT(r.err, HasSubstr("tok/s"));
    }
}

// After exec, the kernel still has the peak memory of the calling process. The report must not show it.
TEST(Report, PeakMemoryIsTheProgramsOwn) {
    const TempFolder folder;
    const std::string run = "'" TRIREME_PROGRAM "' generate -m '" + model() +
                            "' -p 'And God' -n 2 --temp 0 -t 1 --report-json '" + (folder / "r.json") + "'";
    // Python holds 300 MB when it calls exec.
    const ProcessResult r = run_process({"python3", "-c",
                                         "import os; x = bytearray(300 << 20); x[::4096] = b'x' * len(x[::4096]); "
                                         "os.execv('/bin/sh', ['sh', '-c', \"\"\"exec " +
                                             run + "\"\"\"])"});
    ASSERT_EQ(r.status, 0) << r.err;
    const json report = json::parse(read_file(folder / "r.json"));
    EXPECT_LT(report.at("/ranks/0/peak_rss_bytes"_json_pointer).get<double>(), 150e6);
}

}  // namespace
}  // namespace trireme::test
