// A bench's results: rows, the four table formats, and the position where the tokens of two modes differ.

#include "launch/commands/bench_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

BenchRun run(double decode_ms) {
    BenchRun r;
    r.tokens = 11;
    r.ttft_ms = decode_ms / 2;
    r.decode_ms = decode_ms;
    r.link = {.h2d_bytes = 2000000, .h2d_ms = 1, .stall_ms = 0.25};
    return r;
}

BenchResult result(const std::string& mode, const std::vector<double>& decode_ms) {
    BenchResult r;
    r.mode = mode;
    r.plain = mode.starts_with("none");
    r.on_chip = 2;
    r.layers = 6;
    r.prefill_ms = 500;
    for (const double ms : decode_ms) r.runs.push_back(run(ms));
    r.tokens = {{1, 2, 3}, {4, 5, 6}};
    if (r.plain) return r;
    SpeculationStats stats;
    stats.rounds = 4;
    stats.proposed = 16;
    stats.accepted = 8;
    for (size_t depth = 0; depth < 4; ++depth) stats.proposed_at[depth] = 4;
    stats.accepted_at[0] = 4;
    stats.accepted_at[1] = stats.accepted_at[2] = 2;
    stats.draft_ns = 2000000;
    stats.verify_ns = 6000000;
    r.levels = {{"draft+full", stats}};
    r.costs = {{"full", {{1, 20.5}, {2, 21}}}};
    return r;
}

BenchFacts facts() {
    BenchFacts f;
    f.n_prompt = 1000;
    f.n_gen = 11;
    f.texts = 1;
    f.repetitions = 3;
    f.greedy = true;
    f.run = {{"model_filename", "a, \"b\""}};
    return f;
}

TEST(BenchRows, HaveMeansMediansAndTheSpeedUp) {
    const auto rows = bench_rows(facts(), {result("draft", {50, 100, 40}), result("none", {100, 200, 100})});

    ASSERT_THAT(rows, SizeIs(2));
    const auto& draft = rows[0];
    EXPECT_EQ(draft["mode"], "draft");
    EXPECT_THAT(draft["samples_ts"].get<std::vector<double>>(), ElementsAre(200, 100, 250));
    EXPECT_THAT(draft["samples_ns"].get<std::vector<int64_t>>(), ElementsAre(50000000, 100000000, 40000000));
    EXPECT_DOUBLE_EQ(draft["avg_ts"], 550.0 / 3);
    EXPECT_NEAR(draft["stddev_ts"], 76.3763, 1e-4);  // 200, 100, 250 with n - 1
    EXPECT_EQ(draft["median_ts"], 200);
    EXPECT_EQ(draft["tpot_ms"], 5);
    EXPECT_EQ(draft["ttft_ms"], 25);
    EXPECT_EQ(draft["prefill_tok_s"], 2000);
    EXPECT_EQ(draft["speedup"], 2);  // medians: 200 over 100
    EXPECT_EQ(rows[1]["speedup"], 1);
    EXPECT_EQ(draft["accept_rate"], 0.5);
    EXPECT_EQ(draft["accept_len"], 3);
    const double a = draft["alpha"];
    EXPECT_NEAR(4 * (a + a * a + a * a * a + a * a * a * a), 8, 1e-9);
    EXPECT_EQ(draft["levels"][0]["proposed_at"], json({4, 4, 4, 4}));
    EXPECT_EQ(draft["levels"][0]["accepted_at"], json({4, 2, 2, 0}));
    EXPECT_EQ(json(draft["spec_costs"]), json::parse(R"([{"level": "full", "rows": [1, 2], "ms": [20.5, 21.0]}])"));
    EXPECT_TRUE(rows[1]["spec_costs"].empty());
    EXPECT_EQ(draft["draft_ms"], 0.5);
    EXPECT_EQ(draft["verify_ms"], 1.5);
    EXPECT_TRUE(rows[1]["accept_rate"].is_null());
    EXPECT_EQ(draft["h2d_bytes"], 2000000);
    EXPECT_EQ(draft["h2d_gbps"], 2);
    EXPECT_EQ(draft["link_hidden_frac"], 0.75);
    EXPECT_DOUBLE_EQ(draft["link_idle_ms"].get<double>(), (190.0 - 3) / 4);           // by round
    EXPECT_DOUBLE_EQ(rows[1]["link_idle_ms"].get<double>(), (400.0 - 3) / (3 * 10));  // by forward
    EXPECT_EQ(draft["exact"], true);
    EXPECT_EQ(draft["kv_on_chip"], "2/6");
}

TEST(BenchRows, LeaveOutModesThatWereNotMeasured) {
    const auto rows = bench_rows(facts(), {result("none", {}), result("ngram", {10, 30})});
    ASSERT_THAT(rows, SizeIs(1));
    EXPECT_EQ(rows[0]["mode"], "ngram");
    EXPECT_DOUBLE_EQ(rows[0]["median_ts"], (10 / 0.01 + 10 / 0.03) / 2);
    EXPECT_TRUE(rows[0]["speedup"].is_null());
    EXPECT_TRUE(rows[0]["exact"].is_null());
}

TEST(BenchTable, IsWrittenInFiveWays) {
    const auto rows = bench_rows(facts(), {result("none", {100}), result("draft", {50})});

    EXPECT_EQ(json::parse(table_text(Table::kJson, rows)), json(rows));
    const auto lines = lines_of(table_text(Table::kJsonl, rows));
    ASSERT_THAT(lines, SizeIs(2));
    EXPECT_EQ(json::parse(lines[1]), json(rows[1]));

    const auto csv = lines_of(table_text(Table::kCsv, rows));
    ASSERT_THAT(csv, SizeIs(3));
    EXPECT_THAT(csv[0], testing::StartsWith("mode,model_filename,kv_on_chip,n_prompt,n_gen,"));
    EXPECT_THAT(csv[1], testing::StartsWith("none,\"a, \"\"b\"\"\",2/6,1000,11,"));
    EXPECT_EQ(csv[0].find("samples"), std::string::npos);  // a list
    const auto commas = [](const std::string& s) { return std::count(s.begin(), s.end(), ','); };
    EXPECT_EQ(commas(csv[1]), commas(csv[0]) + 1);  // the name has one comma
    EXPECT_EQ(commas(csv[2]), commas(csv[1]));

    const auto plain = bench_rows(facts(), {result("none", {100})});  // proposes nothing
    EXPECT_EQ(table_text(Table::kMd, plain).find("accept_rate"), std::string::npos);
    EXPECT_THAT(table_text(Table::kWide, plain), HasSubstr(" accept_rate |"));

    const auto md = lines_of(table_text(Table::kMd, rows));
    ASSERT_THAT(md, SizeIs(4));
    const auto bars = [](const std::string& s) { return std::count(s.begin(), s.end(), '|'); };
    for (const std::string& line : md) EXPECT_EQ(bars(line), bars(md[0])) << line;
    EXPECT_THAT(md[0], testing::AllOf(HasSubstr("| mode "), HasSubstr(" speedup "), HasSubstr(" exact |")));
    EXPECT_THAT(md[2], testing::AllOf(HasSubstr("| none "), HasSubstr(" 1.00 |"), HasSubstr(" - |")));
    EXPECT_THAT(md[3], testing::AllOf(HasSubstr(" 200.00 ± 0.00 |"), HasSubstr(" 2.00 |"), HasSubstr(" 0.500 |"),
                                      HasSubstr(" yes |")));
}

TEST(BenchDifference, NamesTextAndToken) {
    const BenchResult none = result("none", {1});
    BenchResult other = result("ngram", {1});
    EXPECT_EQ(difference(other, &none, true), "");
    EXPECT_EQ(difference(none, &none, true), "");
    EXPECT_EQ(difference(other, &none, false), std::nullopt);
    EXPECT_EQ(difference(other, nullptr, true), std::nullopt);
    EXPECT_EQ(difference(result("ngram", {}), &none, true), std::nullopt);

    other.tokens[1][2] = 9;
    EXPECT_EQ(difference(other, &none, true), "document 2: token 3 after it is 9, that of none is 6");
    other.tokens[0].pop_back();
    EXPECT_EQ(difference(other, &none, true), "document 1: token 3 after it is missing, that of none is 3");
    other.unsteady = 1;
    EXPECT_EQ(difference(other, &none, true), "text 2: two repetitions give different tokens");
    EXPECT_EQ(bench_rows(facts(), {none, other})[1]["exact"], false);
}

// A bench that a signal ended may have fewer texts for one mode than for another.
TEST(BenchDifference, ComparesTheTextsThatBothHave) {
    const BenchResult none = result("none", {1});
    BenchResult other = result("ngram", {1});
    other.tokens.pop_back();
    EXPECT_EQ(difference(other, &none, true), "");
}

}  // namespace
}  // namespace trireme::test
