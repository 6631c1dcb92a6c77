// trireme bench: compares modes on one model and one prefill, as a table.

#include <csignal>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "launch/commands/bench_texts.h"
#include "launch/flags/command_line.h"
#include "launch/flags/modes.h"
#include "model/tokenizer/tokenizer.h"
#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

Words bench(const Words& more) {
    Words words = {"bench", "-m", model(), "-md", data("models/kjv-draft"), "-n", "24", "-r", "2", "-t", "1"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
}
const Words kText = {"-f", data("texts/kjv_12k.txt"), "--prefill", "400", "--temp", "0"};

std::vector<json> rows(const Words& words, int ranks = 1) {
    const Words all = bench(words + Words{"-o", "json"});
    const ProcessResult r = ranks == 1 ? trireme(all) : trireme_on(ranks, all);
    EXPECT_EQ(r.status, 0) << r.err;
    const json table = json::parse(r.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_TRUE(table.is_array()) << r.out << r.err;
    return table.is_array() ? table.get<std::vector<json>>() : std::vector<json>();
}

/// `what`: a regular expression for a part of the one error line.
void expect_refusal(const Words& words, int status, const std::string& what) {
    const ProcessResult r = trireme(bench(words));
    EXPECT_EQ(r.status, status) << testing::PrintToString(words) << r.err;
    EXPECT_THAT(error_lines(r), ElementsAre(ContainsRegex(what)));
    EXPECT_EQ(r.out, "");
}

TEST(Bench, MeasuresEveryModeAfterOnePrefill) {
    for (const Words& where : {Words{}, Words{"--kv-on-chip", "0"}}) {
        // A shorter text would have no tiles besides the newest two, which are on the device.
        const Words modes = {"--prefill", "700", "--modes",        "none,ngram,window,draft,retrieval,triforce",
                             "--gamma",   "6",   "--gamma-inner",  "2",
                             "--budget",  "64",  "--require-exact"};
        const ProcessResult r = trireme(bench(kText + modes + where + Words{"-o", "json"}));
        ASSERT_EQ(r.status, 0) << r.err;
        const json table = json::parse(r.out);
        ASSERT_THAT(table, SizeIs(6));
        for (const json& row : table) {
            EXPECT_EQ(row["n_prompt"], 700);
            EXPECT_EQ(row["n_gen"], 24);
            EXPECT_EQ(row["runs"], 2);
            EXPECT_THAT(row["samples_ts"], SizeIs(2));
            EXPECT_GT(row["median_ts"], 0);
            EXPECT_GT(row["speedup"], 0);
            EXPECT_EQ(row["exact"], true) << row["mode"];
            EXPECT_EQ(row["prefill_ms"], table[0]["prefill_ms"]);
            EXPECT_EQ(row["kv_on_chip"], where.empty() ? "6/6" : "0/6");
            EXPECT_EQ(row["h2d_bytes"] > 0, !where.empty());
        }
        EXPECT_EQ(table[0]["speedup"], 1);
        EXPECT_TRUE(table[0]["accept_rate"].is_null());
        for (const size_t m : {1, 2, 3, 4, 5}) {
            // The prefill gives the first token; a round gives its accepted tokens and one more.
            ASSERT_THAT(table[m]["levels"], SizeIs(m == 5 ? 2 : 1));
            const json level = table[m]["levels"][0];
            EXPECT_GE(level["rounds"].get<int64_t>() + level["accepted"].get<int64_t>(), 2 * 23);
            EXPECT_EQ(table[m]["accept_len"], level["accept_len"]);
        }
        EXPECT_GT(table[2]["accept_rate"], 0);
        // One prefill of the target for all modes.
        EXPECT_THAT(r.err, HasSubstr("text 1 of 1: 700 tokens"));
        EXPECT_EQ(r.err.find("text 1 of 1"), r.err.rfind("text 1 of 1"));
    }
}

TEST(Bench, GivesTheSameTokensOnTwoRanks) {
    const std::vector<json> table =
        rows(kText + Words{"--modes", "none,ngram,draft", "--require-exact", "--kv-on-chip", "3"}, 2);
    ASSERT_THAT(table, SizeIs(3));
    for (const json& row : table) {
        EXPECT_EQ(row["exact"], true);
        EXPECT_EQ(row["n_ranks"], 2);
    }
}

TEST(Bench, GivesTheBaselineAResidencyOfItsOwn) {
    const std::vector<json> table =
        rows(kText + Words{"--modes", "draft,none@4,none,ngram@all", "--kv-on-chip", "1", "--require-exact"});
    ASSERT_THAT(table, SizeIs(4));
    const char* const want[] = {"1/6", "4/6", "1/6", "6/6"};
    for (size_t m = 0; m < 4; ++m) {
        EXPECT_EQ(table[m]["kv_on_chip"], want[m]);
        EXPECT_EQ(table[m]["exact"], true) << table[m]["mode"];
    }
    EXPECT_EQ(table[1]["mode"], "none@4");
    EXPECT_EQ(table[1]["speedup"], 1);  // the first plain mode is the baseline
    EXPECT_EQ(table[0]["prefill_ms"], table[2]["prefill_ms"]);
    EXPECT_NE(table[0]["prefill_ms"], table[1]["prefill_ms"]);
}

// Parallel samples: the first one has the tokens of a single sample; bytes over the link are counted.
TEST(Bench, MeasuresSamplesSideBySide) {
    const std::vector<json> table = rows(kText + Words{"--modes", "none,none@0", "-np", "1,3,70", "--prefill", "600",
                                                       "--require-exact", "-m", data("models/kjv-lckv")});
    ASSERT_THAT(table, SizeIs(6));
    const int64_t tile = 2 * 2 * 256 * 32 * 2;  // keys and values of 2 heads of 32, f16
    for (size_t i = 0; i < table.size(); ++i) {
        const json& row = table[i];
        const int64_t np = std::vector<int64_t>{1, 3, 70}[i / 2];
        const bool streamed = i % 2 == 1;
        EXPECT_EQ(row["n_parallel"], np);
        EXPECT_EQ(row["exact"], true);
        EXPECT_EQ(row["passes"], 9);
        EXPECT_GT(row["median_ts"], 0);
        EXPECT_GT(row["decode_ms"], 0);
        EXPECT_EQ(row["kv_on_chip"], streamed ? "0/3" : "3/3");
        // 624 tokens take 3 tiles, and samples share 2 of them; there are three owners.
        EXPECT_EQ(row["kv_bytes"], 3 * tile * (np == 1 ? 3 : 2 + np));
        // 23 steps fetch each owner's tiles, except the newest two; 70 samples take two forwards per step. After the
        // last step, the ring is filled for a forward that does not follow.
        const int64_t forwards = 23 * (np == 70 ? 2 : 1) + 1;
        EXPECT_EQ(row["h2d_bytes"], streamed ? forwards * 3 * tile * (np == 1 ? 1 : 2) : 0);
    }
    const ProcessResult md =
        trireme(bench(kText + Words{"-np", "2,auto", "--device-memory", "60M", "--prefill", "600"}));
    EXPECT_EQ(md.status, 0) << md.err;
    EXPECT_THAT(md.out, HasSubstr("| prefill s |"));
    EXPECT_THAT(md.err, HasSubstr("side by side"));
    for (const json& row : rows(kText + Words{"--modes", "none,ngram,h2o", "-np", "2", "--gamma", "4"})) {
        EXPECT_EQ(row["n_parallel"], 2);
        EXPECT_EQ(row["exact"], row["mode"] == "h2o" ? json() : json(true)) << row["mode"];
    }
    expect_refusal(kText + Words{"-np", "2,none"}, 78, "-np 'none': .* 1 to 4096, or auto");
}

TEST(Bench, WritesWhatItHasWhereALaterResidencyDoesNotFit) {
    const Words words = kText + Words{"--modes", "none,ngram@0,ngram", "--kv-on-chip", "all", "--prefill",
                                      "700",     "--host-memory",      "1M",           "-o",  "jsonl"};
    const ProcessResult r = trireme(bench(words));
    EXPECT_EQ(r.status, 71);
    const auto lines = lines_of(r.out);
    ASSERT_THAT(lines, SizeIs(2)) << r.err;
    EXPECT_EQ(json::parse(lines[0])["mode"], "none");
    EXPECT_EQ(json::parse(lines[1])["mode"], "ngram");
    EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("host memory: ")));
}

TEST(Bench, WritesTheTableAloneToStdout) {
    const Words two = kText + Words{"--modes", "none,ngram"};
    const ProcessResult md = trireme(bench(two)), csv = trireme(bench(two + Words{"-o", "csv"})),
                        jsonl = trireme(bench(two + Words{"-o", "jsonl"}));
    ASSERT_THAT(lines_of(md.out), SizeIs(4)) << md.err;
    EXPECT_THAT(lines_of(md.out)[2], testing::StartsWith("| none  |"));
    EXPECT_THAT(lines_of(md.out)[3], testing::StartsWith("| ngram |"));
    EXPECT_THAT(lines_of(csv.out), SizeIs(3));
    EXPECT_THAT(csv.out, testing::StartsWith("mode,build_commit,"));
    for (const char* name : {"model_size", "model_n_params", "n_threads", "type_k", "n_prompt", "n_gen", "n_depth",
                             "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts"}) {
        EXPECT_THAT(lines_of(csv.out)[0], HasSubstr(std::string(",") + name + ",")) << "llama-bench's";
    }
    ASSERT_THAT(lines_of(jsonl.out), SizeIs(2));
    EXPECT_EQ(json::parse(lines_of(jsonl.out)[1])["mode"], "ngram");
}

// At temperature > 0, each repetition samples other tokens, so there is nothing to compare.
TEST(Bench, ComparesTokensAtTemperatureZeroAlone) {
    const std::vector<json> table =
        rows({"-f", data("texts/kjv_12k.txt"), "--prefill", "100", "--temp", "0.8", "--modes", "none,draft"});
    ASSERT_THAT(table, SizeIs(2));
    EXPECT_TRUE(table[0]["exact"].is_null());
    EXPECT_TRUE(table[1]["exact"].is_null());
    EXPECT_GT(table[1]["speedup"], 0);
    expect_refusal({"-p", "x", "--temp", "0.8", "--require-exact"}, 64, "--require-exact: .*--temp 0.8 .*--temp 0$");
    expect_refusal({"-p", "x", "--temp", "0", "--require-exact", "--modes", "ngram"}, 64,
                   "--require-exact: .*none, .*--modes");
    const ProcessResult r = trireme(bench(kText + Words{"--modes", "ngram"}));
    EXPECT_EQ(r.status, 0);
    EXPECT_THAT(r.err, HasSubstr("no mode none"));
}

TEST(Bench, CutsTextsAndLeavesOutShortOnes) {
    const TempFolder folder;
    const std::string text = read_file(data("texts/kjv_12k.txt"));
    write_file(folder / "a.txt", text.substr(0, 3000));
    write_file(folder / "b.txt", "Too short.");
    std::string ids = "1";
    for (int i = 2; i < 400; ++i) ids += "," + std::to_string(i);
    write_file(folder / "c.jsonl", "{\"input_ids\": [" + ids + "]}\n{\"prompt\": \"Too short as well.\"}\n");
    write_file(folder / "notes.md", "no text");
    const Words where = {"--data", folder.path(), "--temp", "0", "--modes", "none,ngram"};

    const ProcessResult r = trireme(bench(where + Words{"--prefill", "300", "-o", "jsonl", "--require-exact"}));

    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, ContainsRegex("2 of 4 texts [^\n]*300 tokens"));
    const TempFolder other;
    write_file(other / "c.jsonl", "{\"input_ids\": [1, 2, 99999]}\n");
    const ProcessResult bad = trireme(bench({"--data", other.path(), "--prefill", "3"}));
    EXPECT_EQ(bad.status, 78);
    EXPECT_THAT(error_lines(bad), ElementsAre(HasSubstr("c.jsonl:1's id 99999 at index 2 ")));
    EXPECT_THAT(r.err, ContainsRegex(": 1 of its files [^\n]*notes.md"));
    EXPECT_THAT(r.err, HasSubstr("text 2 of 2: 300 tokens"));
    for (const std::string& line : lines_of(r.out)) {
        const json row = json::parse(line);
        EXPECT_EQ(row["texts"], 2);
        EXPECT_EQ(row["texts_left_out"], 2);
        EXPECT_EQ(row["repetitions"], 2);
        EXPECT_EQ(row["runs"], 4);
        EXPECT_EQ(row["n_prompt"], 300);
        EXPECT_EQ(row["exact"], true);
    }
    expect_refusal(where, 64, "4 documents: .*--prefill TOKENS");
    expect_refusal(where + Words{"--prefill", "2000"}, 78, "--prefill 2000: none of 4 texts");
}

// TriForce's tables: data sets, temperatures and KV placements in one.
TEST(Bench, CombinesDataSetsAndTemperatures) {
    const TempFolder folder;
    std::filesystem::create_directories(folder / "pg19");
    std::filesystem::create_directories(folder / "lwm");
    const std::string book = read_file(data("texts/kjv_60k.txt"));
    write_file(folder / "pg19/a.txt", book.substr(0, 6000));
    write_file(folder / "lwm/a.txt", book.substr(0, 9000));
    write_file(folder / "lwm/b.txt", "And it came to pass. ");  // too short: TriForce leaves it out
    const Words words = {"--data", folder.path(), "--dataset",         "gs,lwm",        "--prefill", "600", "--temp",
                         "0,0.6",  "--modes",     "none,none@2,ngram", "--repetitions", "1"};
    const std::vector<json> table = rows(words);
    ASSERT_THAT(table, SizeIs(12));
    for (size_t i = 0; i < table.size(); ++i) {
        EXPECT_EQ(table[i]["dataset"], i < 6 ? "gs" : "lwm");
        EXPECT_EQ(table[i]["temp"], i % 6 < 3 ? 0.0 : 0.6);
        EXPECT_EQ(table[i]["mode"], (Words{"none", "none@2", "ngram"}[i % 3]));
        EXPECT_EQ(table[i]["n_prompt"], 600);
        EXPECT_EQ(table[i]["texts"], 1);
        if (i % 6 < 3) {
            EXPECT_EQ(table[i]["exact"], true);
        }
    }
    const ProcessResult r = trireme(bench(words));
    EXPECT_THAT(lines_of(r.out)[0], AllOf(HasSubstr("| data |"), HasSubstr(" T |")));
    EXPECT_THAT(lines_of(trireme(bench(kText)).out)[0], Not(HasSubstr("| data")));
    expect_refusal(words + Words{"--record", folder / "r.h5"}, 64, "--record: .*one bench");
    expect_refusal(words + Words{"--require-exact"}, 64, "--temp 0.6|temp 0");
    const ProcessResult other = trireme({"generate", "-m", model(), "-p", "x", "--temp", "0,1"});
    EXPECT_EQ(other.status, 78);
    EXPECT_THAT(error_lines(other), ElementsAre(HasSubstr("--temp 0,1")));
}

// The chat form of TriForce's data/dataset.py, of exactly `prefill` tokens.
TEST(Bench, BuildsThePromptOfABookAsTriForceDoes) {
    const auto tokenizer = load_tokenizer(model());
    const std::string book = read_file(data("texts/kjv_60k.txt")).substr(0, 9000);
    for (const int64_t prefill : {300, 601, 1024}) {
        const std::vector<int64_t> ids = book_prompt(*tokenizer, book, prefill);
        ASSERT_EQ(std::ssize(ids), prefill);
        EXPECT_EQ(ids[0], tokenizer->bos());
        const std::string text = tokenizer->decode(std::vector<int32_t>(ids.begin() + 1, ids.end()));
        const std::string before =
            "You are a helpful assistant. USER: Please read a part of the book below, and then give me the summary.\n"
            "[start of the book]\n";
        EXPECT_THAT(text, testing::StartsWith(before + book.substr(3, 100)));
        EXPECT_THAT(text, testing::EndsWith("\n[end of the book]\n\nNow you have read it. Please summarize it for me. "
                                            "First, tell me the title and the author, and "
                                            "then tell the story in 500 words.\n\nASSISTANT: "));
    }
    EXPECT_THAT(book_prompt(*tokenizer, book, 9000), IsEmpty());
    EXPECT_THAT(book_prompt(*tokenizer, book, 50), IsEmpty());
}

TEST(Bench, GivesAPolicyABudget) {
    const Options o =
        parse_command_line(bench(kText + Words{"--modes", "full,h2o@32,snapkv", "--kv-window", "0.5"}), {}).options;
    const std::vector<Options> chains = chains_of(Command::kBench, o);
    ASSERT_THAT(chains, SizeIs(3));
    EXPECT_EQ(chains[0].eviction.policy, KvPolicy::kFull);
    EXPECT_TRUE(chains[0].spec.parts.empty());
    EXPECT_EQ(chains[1].eviction.policy, KvPolicy::kH2o);
    EXPECT_EQ(chains[1].eviction.budget, 32);
    EXPECT_EQ(chains[1].eviction.budget_share, 0);
    EXPECT_EQ(chains[2].eviction.budget_share, 0.5);
    expect_refusal(kText + Words{"--modes", "h2o@many"}, 78, "--modes 'many'");
}

TEST(Bench, TakesIdsWithoutATokenizer) {
    const TempFolder folder;
    write_file(folder / "ids.jsonl", "{\"input_ids\": [1, 2, 3, 4]}\n");
    write_file(folder / "text.jsonl", "{\"prompt\": \"four\"}\n");
    const std::string bare = data("tiny/dynamic-across");  // has no tokenizer
    const Words words = {"bench", "-m", bare, "-n", "4", "-r", "1", "-t", "1", "-o", "jsonl", "--data"};
    const ProcessResult r = trireme(words + Words{folder / "ids.jsonl"});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_EQ(json::parse(r.out)["n_prompt"], 4);
    const ProcessResult text = trireme(words + Words{folder / "text.jsonl"});
    EXPECT_EQ(text.status, 66);
    EXPECT_THAT(error_lines(text), ElementsAre(ContainsRegex("text.jsonl:1: .*--tokenizer PATH")));
}

TEST(Bench, RefusesWhatItCannotMeasure) {
    const Words text = {"-f", data("texts/kjv_12k.txt"), "--prefill", "200"};
    expect_refusal({}, 64, "trireme bench: .*-p TEXT .*-f FILE, .*--prompt-ids FILE, .*--data PATH");
    expect_refusal(text + Words{"--modes", "none,medusa"}, 78, "--modes 'medusa'");
    expect_refusal(text + Words{"--modes", "none,"}, 78, "--modes ''");
    expect_refusal(text + Words{"--modes", "none,ngram,none"}, 78, "--modes 'none,ngram,none': .* none twice");
    expect_refusal(text + Words{"--modes", "none@many"}, 78, "--modes 'many'");
    expect_refusal(text + Words{"--modes", "none@7"}, 78, "7 layers .* 6 ");
    expect_refusal(text + Words{"-n", "1"}, 78, "-n 1: .* 2 or more");
    expect_refusal(text + Words{"-n", "2000"}, 78, "200 tokens, -n .*2000, .* 2048");
    expect_refusal(text + Words{"-r", "0"}, 78, "-r '0'");
    expect_refusal(text + Words{"-o", "sql"}, 78, "-o 'sql'");
    expect_refusal(text + Words{"--data", "x"}, 64, "--data: .*-f; ");
    expect_refusal({"--dataset", "pg19"}, 78, "--dataset 'pg19'");
    expect_refusal({"--dataset", "gs", "--data", "/nowhere"}, 66, "--dataset gs: .*/nowhere/pg19");
    expect_refusal({"--data", "/nowhere"}, 66, "/nowhere");
    const ProcessResult r = trireme({"bench", "-m", model(), "-p", "x", "--modes", "none,draft"});
    EXPECT_THAT(error_lines(r), ElementsAre(HasSubstr("-md PATH")));
}

TEST(Bench, WarnsOfFlagsThatNoModeReads) {
    const Words text = {"-f", data("texts/kjv_12k.txt"), "--prefill", "50", "-r", "1", "--gamma", "3"};
    const ProcessResult r = trireme(bench(text + Words{"--modes", "none,ngram"}));
    EXPECT_THAT(r.err, AllOf(HasSubstr("--model-draft " + kNoEffect), Not(HasSubstr("--gamma " + kNoEffect))));
    const ProcessResult draft = trireme(bench(text + Words{"--modes", "none,draft"}));
    EXPECT_EQ(draft.status, 0);
    EXPECT_THAT(draft.err, Not(HasSubstr(kNoEffect)));
}

// A signal ends the bench, and the results up to then are shown.
TEST(Bench, ShowsWhatItHasWhenASignalEndsIt) {
    for (const int number : {SIGINT, SIGTERM}) {
        const ProcessResult r =
            trireme(bench(kText + Words{"--modes", "none,ngram", "-r", "10000", "-o", "jsonl", "-v"}),
                    {.timeout_s = 60, .signal_at_output = number, .signal_at_error = "ngram, text 1, 24 tokens"});
        EXPECT_EQ(r.status, 128 + number) << r.err;
        ASSERT_THAT(lines_of(r.out), SizeIs(2)) << r.err;
        EXPECT_LT(json::parse(lines_of(r.out)[0])["runs"], 10000);
        EXPECT_EQ(json::parse(lines_of(r.out)[1])["exact"], true);
        EXPECT_THAT(r.err, HasSubstr(kStoppedBy + "signal " + std::to_string(number)));
        EXPECT_THAT(error_lines(r), IsEmpty());
    }
}

TEST(Bench, LeavesAPrefillAtASignal) {
    const TempFolder folder;
    const std::string text = read_file(data("texts/kjv_12k.txt"));
    write_file(folder / "a.txt", text);
    write_file(folder / "b.txt", text);
    const Words slow = {"--data",      folder.path(), "--prefill", "512",          "-n",    "2",      "-r",
                        "1",           "--modes",     "none",      "-o",           "jsonl", "--temp", "0",
                        "--link-gbps", "0.001",       "-v",        "--kv-on-chip", "0"};
    const ProcessOptions options = {
        .timeout_s = 60, .signal_at_output = SIGTERM, .signal_at_error = "none, text 1, 2 tokens"};
    const auto expect_left = [](const ProcessResult& r) {
        EXPECT_EQ(r.status, 128 + SIGTERM) << r.err;
        EXPECT_EQ(r.err.find("text 2 of 2"), std::string::npos) << r.err;
        ASSERT_THAT(lines_of(r.out), SizeIs(1)) << r.err;
        EXPECT_EQ(json::parse(r.out)["runs"], 1);
    };
    expect_left(trireme(bench(slow), options));

    // One of two ranks receives the signal.
    std::string line = "echo $$ > " + folder.path() + "/pid$OMPI_COMM_WORLD_RANK; exec '" TRIREME_PROGRAM "'";
    for (const std::string& word : bench(slow)) line += " '" + word + "'";
    ProcessOptions to_one = options;
    to_one.signal_to = folder / "pid1";
    expect_left(
        run_mpirun({TRIREME_MPIEXEC, "--allow-run-as-root", "--oversubscribe", "-n", "2", "bash", "-c", line}, to_one));
}

}  // namespace
}  // namespace trireme::test
