// KV placement, as a user sees it.

#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

std::string long_text() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "In the beginning God created the heaven and the earth. ";
    return text;
}

Words request(const Words& more, int64_t tokens = 12) {
    Words words = {"generate", "-m", model(),   "-p", long_text(), "-n", std::to_string(tokens),
                   "--temp",   "0",  "--print", "ids"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

TEST(Residency, AnyPlacementGivesTheSameTokens) {
    const ProcessResult all = trireme(request({"--kv-on-chip", "all"}));
    ASSERT_EQ(all.status, 0) << all.err;
    for (const Words& more : std::vector<Words>{{"--kv-on-chip", "0"},
                                                {"--kv-on-chip", "3", "--kv-ring", "2", "--kv-verify"},
                                                {"--kv-on-chip", "5", "--link-gbps", "2", "--link-us", "20"}}) {
        const ProcessResult r = trireme(request(more));
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(r.out, all.out) << more[1];
        EXPECT_THAT(r.err, HasSubstr("streamed from"));
    }
    const ProcessResult ranks = trireme_on(2, request({"--kv-on-chip", "2"})), plain = trireme_on(2, request({}));
    EXPECT_EQ(ranks.status, 0) << ranks.err;
    EXPECT_EQ(ranks.out, plain.out);
}

TEST(Residency, CodedTilesGiveTheSameTokens) {
    for (const char* type : {"bf16", "f16"}) {
        const auto run = [&](Words more) {
            more.insert(more.end(), {"--kv-cache-dtype", type});
            const ProcessResult r = trireme(request(more));
            EXPECT_EQ(r.status, 0) << r.err;
            return r;
        };
        const std::string all = run({"--kv-on-chip", "all"}).out;
        for (const Words& more : std::vector<Words>{
                 {"--kv-on-chip", "0", "--kv-wire", "coded", "--kv-verify"},
                 {"--kv-on-chip", "3", "--link-gbps", "2"},
                 {"--kv-on-chip", "3", "--kv-wire", "coded", "--spec", "retrieval", "--budget", "128"}}) {
            const ProcessResult r = run(more);
            EXPECT_EQ(r.out, all) << type;
            EXPECT_THAT(r.err, HasSubstr("streamed tiles are coded: "));
        }
        EXPECT_THAT(run({"--kv-on-chip", "0", "--link-gbps", "20"}).err, HasSubstr("streamed tiles are not coded: "));
        const Words ranked = {"--kv-on-chip", "2", "--kv-cache-dtype", type};
        Words coded = ranked;
        coded.insert(coded.end(), {"--kv-wire", "coded"});
        EXPECT_EQ(trireme_on(2, request(coded)).out, trireme_on(2, request(ranked)).out);
    }
    const ProcessResult f32 = trireme(request({"--kv-on-chip", "0", "--kv-cache-dtype", "f32", "--kv-wire", "coded"}));
    EXPECT_EQ(f32.status, 78);
    EXPECT_THAT(f32.err, HasSubstr("--kv-wire coded: f32/f32 keys and values"));
}

// Snapshots contain plain tiles: those of a coded run and of a raw one are alike, and each run reads both.
TEST(Residency, SnapshotsOfCodedTilesAreThoseOfPlainOnes) {
    const TempFolder folder;
    const Words raw = {"--kv-on-chip", "1", "--kv-cache-dtype", "bf16", "--kv-wire", "raw"},
                coded = {"--kv-on-chip", "1", "--kv-cache-dtype", "bf16", "--kv-wire", "coded"};
    const auto with = [](Words words, const Words& more) {
        words.insert(words.end(), more.begin(), more.end());
        return words;
    };
    const std::string whole = trireme(request(raw, 20)).out;
    for (const auto& [writes, reads] : {std::pair{raw, coded}, {coded, raw}, {coded, coded}}) {
        const std::string file = folder / "kv.h5";
        const ProcessResult first = trireme(request(with(writes, {"--save-kv", file, "--force"}), 7));
        ASSERT_EQ(first.status, 0) << first.err;
        const ProcessResult rest = trireme(request(with(reads, {"--load-kv", file}), 20));
        EXPECT_EQ(rest.status, 0) << rest.err;
        EXPECT_EQ(rest.out, whole);
    }
}

/// The --report-json of a request, and its stderr.
struct Reported {
    Reported(Words more, int64_t tokens) {
        const TempFolder folder;
        more.insert(more.end(), {"--report-json", folder / "report.json"});
        const ProcessResult r = trireme(request(more, tokens));
        EXPECT_EQ(r.status, 0) << r.err;
        err = r.err;
        report = nlohmann::json::parse(read_file(folder / "report.json"));
    }
    /// Size of one tile in all streamed layers.
    int64_t tile_bytes() const {
        return report["residency"]["host_kv_bytes"].get<int64_t>() / ((report["context"].get<int64_t>() + 255) / 256);
    }
    void expect_every_whole_tile_stored_once() const {
        const nlohmann::json& residency = report["residency"];
        const int64_t tokens = report["n_prompt"].get<int64_t>() + report["n_gen"].get<int64_t>() - 1;
        EXPECT_EQ(residency["prefill"]["d2h_bytes"].get<int64_t>() + residency["decode"]["d2h_bytes"].get<int64_t>(),
                  tokens / 256 * tile_bytes());
    }

    std::string err;
    nlohmann::json report;
};

TEST(Residency, TheReportSaysWhatTheCodeSaved) {
    const Reported run({"--kv-on-chip", "2", "--kv-cache-dtype", "bf16", "--kv-wire", "coded"}, /*tokens=*/9);
    const nlohmann::json& residency = run.report["residency"];
    EXPECT_EQ(residency["kv_wire"], "coded");
    EXPECT_EQ(residency["plain_tiles"], 0);
    for (const char* part : {"prefill", "decode"}) {
        for (const char* way : {"h2d", "d2h"}) {
            const auto bytes = residency[part][std::string(way) + "_bytes"].get<double>();
            const auto plain = residency[part][std::string(way) + "_plain_bytes"].get<double>();
            EXPECT_NEAR(plain, bytes * 1.41, plain * 0.01) << part << way;
        }
    }
    run.expect_every_whole_tile_stored_once();
}

TEST(Residency, TheReportSaysWhatTravelled) {
    const Reported run({"--kv-on-chip", "2", "--link-gbps", "4"}, /*tokens=*/9);
    EXPECT_THAT(run.err, HasSubstr("(emulated)"));
    const nlohmann::json& report = run.report;

    const nlohmann::json& residency = report["residency"];
    EXPECT_EQ(residency["on_chip_layers"], 2);
    EXPECT_EQ(residency["streamed_layers"], 4);
    EXPECT_EQ(residency["emulated"], true);
    const auto prompt = report["n_prompt"].get<int64_t>();
    ASSERT_GT(prompt, 600);
    // A prefill stores every complete tile of the streamed layers once and fetches none. A step fetches all tiles
    // except the two newest.
    EXPECT_EQ(residency["prefill"]["h2d_bytes"], 0);
    run.expect_every_whole_tile_stored_once();
    const auto steps = report["n_gen"].get<int64_t>() - 1;
    const auto came = residency["decode"]["h2d_bytes"].get<int64_t>();
    EXPECT_GE(came, steps * (prompt / 256 - 1) * run.tile_bytes());
    EXPECT_LE(came, (steps + 1) * (prompt / 256) * run.tile_bytes());  // the next step's first spans are in flight
    EXPECT_EQ(residency["decode"]["steps"], steps);
    EXPECT_NEAR(residency["decode"]["h2d_bytes_per_step"].get<double>(),
                static_cast<double>(came) / static_cast<double>(steps), 1);
    EXPECT_EQ(residency["prefill"]["hidden_h2d_bytes"], 0);  // hidden states are on the device
    for (const char* name :
         {"h2d_gbps", "h2d_busy_frac", "h2d_idle_ms", "link_hidden_frac", "stall_ms", "compute_ms"}) {
        EXPECT_TRUE(residency["decode"][name].is_number()) << name;
    }
    for (const char* part : {"prefill", "decode"}) {
        EXPECT_LE(residency[part]["h2d_gbps"], 4.2) << part << ": the link's pace";
        EXPECT_LE(residency[part]["d2h_gbps"], 4.2) << part;
    }
    EXPECT_GT(residency["prefill"]["d2h_gbps"], 0);
}

// The last step completes a tile, and the link is slow: stores are still in flight when the last token is sampled.
TEST(Residency, WhatIsStoredAtTheEndCounts) {
    const Reported alone({"--kv-on-chip", "2"}, /*tokens=*/1);
    const auto prompt = alone.report["n_prompt"].get<int64_t>();
    const int64_t tokens = 256 - prompt % 256 + 1;
    const Reported run({"--kv-on-chip", "2", "--link-gbps", "0.05"}, tokens);
    ASSERT_EQ(run.report["n_gen"], tokens);
    run.expect_every_whole_tile_stored_once();
}

// The link is ten times slower than compute: most of a step is waiting, and the report counts it as stall.
TEST(Residency, TheReportSaysWhatComputeWaitedFor) {
    const Reported run({"--kv-on-chip", "0", "--link-gbps", "0.01"}, /*tokens=*/9);
    const nlohmann::json& decode = run.report["residency"]["decode"];
    const double link_ms = decode["h2d_bytes_per_step"].get<double>() / 0.01 * 1e-6;
    EXPECT_GT(decode["stall_ms"].get<double>(), 0.5 * link_ms);
    EXPECT_LT(decode["link_hidden_frac"].get<double>(), 0.5);
    EXPECT_GT(decode["h2d_busy_frac"].get<double>(), 0.5);
}

TEST(Residency, ALinkThatNothingTravelsOverIsNotEmulated) {
    const Reported run({"--kv-on-chip", "all", "--link-gbps", "4"}, /*tokens=*/2);
    EXPECT_EQ(run.report["residency"]["emulated"], false);
}

TEST(Residency, AutoFillsTheMemoryItIsGiven) {
    const ProcessResult plenty = trireme(request({"--device-memory", "4G"}));
    EXPECT_EQ(plenty.status, 0) << plenty.err;
    EXPECT_THAT(plenty.err, HasSubstr("all 6 layers on chip"));
    const ProcessResult all = trireme(request({"--kv-on-chip", "all", "--device-memory", "1M"}));
    EXPECT_EQ(all.status, 71);
    ASSERT_EQ(error_lines(all).size(), 1u) << all.err;
    EXPECT_THAT(error_lines(all)[0], HasSubstr("device memory: "));
    EXPECT_THAT(error_lines(all)[0], HasSubstr("allowed"));
}

TEST(Residency, ImpossibleSettingsAreOneLineEach) {
    struct Case {
        Words words;
        int status;
    };
    for (const Case& c : std::vector<Case>{{{"--kv-on-chip", "7"}, 78},
                                           {{"--kv-on-chip", "-1"}, 78},
                                           {{"--kv-on-chip", "some"}, 78},
                                           {{"--kv-ring", "1"}, 78},
                                           {{"--kv-ring", "9"}, 78},
                                           {{"--link-gbps", "0"}, 78},
                                           {{"--link-gbps", "1e-300"}, 78},
                                           {{"--link-us", "5"}, 78},
                                           {{"--link-gbps", "nan"}, 78},
                                           {{"--link-us", "-1"}, 78},
                                           {{"--device-memory", "much"}, 78},
                                           {{"--host-memory", "1", "--kv-on-chip", "0"}, 71}}) {
        const ProcessResult r = trireme(request(c.words));
        EXPECT_EQ(r.status, c.status) << c.words[0] << " " << c.words[1] << "\n" << r.err;
        EXPECT_EQ(error_lines(r).size(), 1u) << r.err;
        EXPECT_EQ(r.out, "");
    }
}

TEST(Plan, PrintsMemoryAndTimeOfARunThatIsNotStarted) {
    const ProcessResult r = trireme({"plan", "-m", model(), "-c", "2048", "--ranks", "2", "--kv-on-chip", "2",
                                     "--device-gbps", "100", "--link-gbps", "10"});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(r.err, "");
    EXPECT_THAT(r.out, HasSubstr("2048 tokens, 2 ranks"));
    EXPECT_THAT(r.out, HasSubstr("2 of 6 layers"));
    EXPECT_THAT(r.out, HasSubstr("layers on chip: 2, 5"));
    EXPECT_THAT(r.out, HasSubstr("a decode step at context length 2048: "));

    const ProcessResult small = trireme({"plan", "-m", model(), "--device-memory", "1K"});
    EXPECT_EQ(small.status, 71);
    EXPECT_THAT(small.out, HasSubstr("device: "));  // the table is printed nevertheless
    EXPECT_EQ(error_lines(small).size(), 1u);
}

TEST(Doctor, MeasuresWhatARunStandsOn) {
    for (const int ranks : {1, 2}) {
        const ProcessResult r = ranks == 1 ? trireme({"doctor"}) : trireme_on(2, {"doctor"});
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_THAT(r.out, HasSubstr("host memory, read"));
        EXPECT_THAT(r.out, HasSubstr("host to device, pinned"));
        EXPECT_EQ(r.out.find("all_reduce") != std::string::npos, ranks == 2);
        // The last line consists of plan's flags, in a form that plan accepts.
        const Words lines = lines_of(r.out);
        Words words = {"plan", "-m", model(), "--device-memory", "1G"};
        std::istringstream flags(lines.back().substr(lines.back().find("--")));
        for (std::string word; flags >> word;) words.push_back(word);
        EXPECT_THAT(words, testing::Contains(std::string("--device-gbps")));
        EXPECT_EQ(trireme(words).status, 0) << lines.back();
    }
}

}  // namespace
}  // namespace trireme::test
