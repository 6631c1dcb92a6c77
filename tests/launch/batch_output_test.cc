// The output of `trireme batch`: however a run ends, no line is lost and none is written twice.

#include <algorithm>
#include <csignal>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/batch_files.h"

namespace trireme::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::SizeIs;
using testing::StartsWith;

std::vector<Json> uninterrupted(const std::vector<Json>& all) {
    const BatchFiles files(all);
    const ProcessResult r = trireme(files.command());
    EXPECT_EQ(r.status, 0) << r.err;
    return files.results();
}

/// The exit code and error of a run over these files, without the folder's path.
std::string refusal(const BatchFiles& files, const Words& more = {}) {
    const ProcessResult r = trireme(files.command(more));
    const Words errors = error_lines(r);
    EXPECT_THAT(errors, SizeIs(1)) << r.err;
    return std::to_string(r.status) + (errors.empty() ? "" : errors[0].substr(errors[0].find("/out")));
}

TEST(BatchOutput, ContinuesWhereALimitHasEndedIt) {
    const std::vector<Json> all = requests(5), want = uninterrupted(all);
    const BatchFiles files(all);

    EXPECT_EQ(trireme(files.command({"--limit", "2"})).status, 0);
    EXPECT_THAT(files.results(), ElementsAre(want[0], want[1]));
    const std::string first = read_file(files.output());
    EXPECT_EQ(trireme(files.command({"--sample_num", "2"})).status, 0);
    EXPECT_EQ(trireme(files.command({"--limit", "1"})).status, 0);
    EXPECT_EQ(read_file(files.output()), first);
    const ProcessResult rest = trireme(files.command({"--limit", "9"}));

    EXPECT_THAT(rest.err, HasSubstr("5 requests, 2 "));
    EXPECT_EQ(files.results(), want);
    EXPECT_EQ(read_file(files.output()).substr(0, first.size()), first);
}

TEST(BatchOutput, LosesATornLineAlone) {
    const std::vector<Json> all = requests(3), want = uninterrupted(all);
    const BatchFiles files(all);
    ASSERT_EQ(trireme(files.command()).status, 0);
    const std::string whole = read_file(files.output());
    const size_t last = whole.rfind('\n', whole.size() - 2) + 1;
    for (const size_t size : {size_t{0}, size_t{1}, last - 1, last, last + 1, whole.size() - 1}) {
        write_file(files.output(), whole.substr(0, size));
        const ProcessResult r = trireme(files.command());
        EXPECT_EQ(r.status, 0) << r.err;
        EXPECT_EQ(files.results(), want) << size << " of " << whole.size() << " bytes";
        EXPECT_EQ(r.err.find("not finished") != std::string::npos, size != 0 && size != last) << r.err;
    }
}

TEST(BatchOutput, LosesNothingWhenTheRunIsKilled) {
    const std::vector<Json> all = requests(24), want = uninterrupted(all);
    for (const Words& flags : {Words{}, {"-np", "5"}}) {
        for (const char* moment : {"KV of all", "request 1 of", "request 7 of", "request 23 of", "request 24 of"}) {
            const BatchFiles files(all);
            const ProcessResult killed =
                trireme(files.command(flags), {.signal_at_output = SIGKILL, .signal_at_error = moment});
            EXPECT_THAT(killed.status, testing::AnyOf(128 + SIGKILL, 0)) << killed.err;
            EXPECT_EQ(trireme(files.command(flags)).status, 0);
            EXPECT_EQ(files.results(), want) << moment;
        }
    }
}

// Each run gets a little more time than the previous one.
TEST(BatchOutput, LosesNothingWhenRunsAreKilledAgainAndAgain) {
    const std::vector<Json> all = requests(24), want = uninterrupted(all);
    const BatchFiles files(all);
    int runs = 0, status = -1;
    for (double seconds = 0.01; status != 0 && seconds < 60; seconds *= 1.1, ++runs) {
        Words words = {"timeout", "-s", "KILL", std::to_string(seconds), TRIREME_PROGRAM};
        const Words command = files.command();
        words.insert(words.end(), command.begin(), command.end());
        status = run_process(words).status;
    }
    EXPECT_EQ(status, 0);
    EXPECT_GT(runs, 1);
    EXPECT_EQ(files.results(), want);
}

TEST(BatchOutput, HasWholeLinesAfterASignal) {
    std::vector<Json> all = requests(2);
    all[1]["max_tokens"] = 1900;
    for (const int number : {SIGINT, SIGTERM}) {
        for (const char* parallel : {"1", "2"}) {
            const Words flags = {"--ignore-eos", "-np", parallel};
            const BatchFiles files(all);
            const ProcessResult r =
                trireme(files.command(flags), {.signal_at_output = number, .signal_at_error = "request 1 of"});
            EXPECT_EQ(r.status, 128 + number) << r.err;
            EXPECT_THAT(r.err, HasSubstr(kStoppedBy + "signal " + std::to_string(number)));
            EXPECT_THAT(error_lines(r), SizeIs(0)) << r.err;
            EXPECT_THAT(files.results(), SizeIs(1));
            EXPECT_EQ(trireme(files.command(flags)).status, 0);
            EXPECT_THAT(files.results(), SizeIs(2));
        }
    }
}

/// Flags of batch as --help lists them, by their variables: TRIREME_KV_WINDOW is kv-window.
std::vector<std::string> flags_of_batch() {
    std::vector<std::string> all;
    const std::string help = trireme({"batch", "--help"}).out, mark = "[env: TRIREME_";
    for (size_t at = help.find(mark); at != std::string::npos; at = help.find(mark, at + 1)) {
        const size_t begin = at + mark.size();
        std::string name = help.substr(begin, help.find(']', begin) - begin);
        for (char& c : name) c = c == '_' ? '-' : static_cast<char>(std::tolower(c));
        all.push_back(name);
    }
    return all;
}

struct Resumed {
    std::string name;
    Words flags;          // of the second run
    Words beside = {};    // flags of both runs
    bool refused = true;  // the flag affects the tokens
};

/// Every flag of batch that may differ between a run and the one that resumes it.
std::vector<Resumed> resumed_runs(const TempFolder& folder) {
    const std::string draft = data("models/kjv-draft");
    const Words h2o = {"--kv-policy", "h2o", "--kv-window", "64"},
                snap = {"--kv-policy", "snapkv", "--kv-window", "96"};
    const Words spec = {"--spec", "retrieval", "--gamma", "3"},
                drafts = {"--spec", "draft", "-md", draft, "--gamma", "3"};
    write_file(folder / "run.ini", "temp = 0.3\n");
    return {{"model", {"-m", data("models/kjv-lckv")}},
            {"tokenizer", {"--tokenizer", model()}, {}, false},
            {"add-special", {"--add-special=off"}},
            {"no-bos", {"--no-bos"}},
            {"chat", {"--chat"}},
            {"system", {"--system", "x"}},
            {"ctx-size", {"-c", "512"}},
            {"n-predict", {"-n", "5"}},
            {"parallel", {"-np", "2"}, {}, false},
            {"stop", {"--stop", "God"}},
            {"ignore-eos", {"--ignore-eos"}},
            {"seed", {"--seed", "2"}},
            {"temp", {"--temp", "0.5"}},
            {"top-k", {"--top-k", "7"}},
            {"top-p", {"--top-p", "0.5"}},
            {"min-p", {"--min-p", "0.5"}},
            {"dtype", {"--dtype", "f32"}},
            {"cache-type-k", {"-ctk", "f32"}},
            {"cache-type-v", {"-ctv", "f32"}},
            {"kv-cache-dtype", {"--kv-cache-dtype", "f32"}},
            {"kv-on-chip", {"--kv-on-chip", "2"}, {}, false},
            {"kv-ring", {"--kv-ring", "2"}, {"--kv-on-chip", "2"}, false},
            {"device-memory", {"--device-memory", "1G"}, {}, false},
            {"host-memory", {"--host-memory", "1G"}, {}, false},
            {"link-gbps", {"--link-gbps", "5"}, {}, false},
            {"link-us", {"--link-us", "5"}, {"--link-gbps", "5"}, false},
            {"kv-verify", {"--kv-verify"}, {"--kv-on-chip", "2"}, false},
            {"kv-policy", {"--kv-policy", "streaming"}, {"--kv-window", "64"}},
            {"h2o", {"--h2o"}},
            {"kv-window", {"--kv-window", "48"}, {"--kv-policy", "h2o"}},
            {"kv-heavy", {"--kv-heavy", "5"}, h2o},
            {"kv-sinks", {"--kv-sinks", "2"}, h2o},
            {"kv-positions", {"--kv-positions", "rolling"}, h2o},
            {"kv-rolling", {"--kv-rolling"}, h2o},
            {"kv-gqa", {"--kv-gqa", "max"}, h2o},
            {"kv-heads-share", {"--kv-heads-share", "layer"}, h2o},
            {"kv-score-dtype", {"--kv-score-dtype", "f16"}, h2o},
            {"kv-decay", {"--kv-decay", "0.9"}, h2o},
            {"kv-normalise", {"--kv-normalise"}, h2o},
            {"kv-observe", {"--kv-observe", "16"}, snap},
            {"kv-pool", {"--kv-pool", "3"}, snap},
            {"kv-every", {"--kv-every", "3"}, snap},
            {"kv-chunk", {"--kv-chunk", "64"}, h2o},
            {"layer-map", {"--layer-map", "0_1_2_3_3_3"}},
            {"layer-window", {"--layer-window", "W+1"}},
            {"passes", {"--passes", "exact"}, {"-m", data("models/kjv-lckv")}},
            {"passes-tolerance", {"--passes-tolerance", "0.5"}, {"-m", data("models/kjv-lckv"), "--passes", "auto"}},
            {"spec", {"--spec", "ngram"}},
            {"draft-window", {"--draft-window", "128"}, {"--spec", "window", "--gamma", "3"}},
            {"model-draft", {"-md", model()}, drafts},
            {"suffix-corpus", {"--suffix-corpus", data("texts/kjv_12k.txt")}, {"--spec", "suffix", "--gamma", "3"}},
            {"spec-draft-n-max", {"--gamma", "2"}, {"--spec", "ngram"}},
            {"gamma-inner", {"--gamma-inner", "2"}, {"--spec", "triforce", "-md", draft, "--gamma", "3"}},
            {"spec-costs", {}, {}, false},
            {"tree-size", {"--tree-size", "9"}, {"--spec", "tree", "-md", draft, "--gamma", "3"}},
            {"siblings", {"--siblings", "2"}, spec},
            {"retrieval-budget", {"--budget", "32"}, spec},
            {"retrieval-chunk", {"--chunk-size", "4"}, spec},
            {"reselect", {"--reselect", "3"}, spec},
            {"reselect-queries", {"--reselect-queries", "2"}, spec},
            {"device", {"--device", "cpu"}, {}, false},
            {"no-graphs", {"--no-graphs"}, {}, false},
            {"threads", {"-t", "2"}, {}, false},
            {"bind", {"--bind", "none"}, {}, false},
            {"tensor-parallel-size", {"-tp", "1"}, {}, false},
            {"record", {"--record", folder / "r.h5"}, {}, false},
            {"trace", {"--trace", folder / "trace.json"}, {}, false},
            {"no-progress", {"--no-progress"}, {}, false},
            {"log-level", {"-lv", "debug"}, {}, false},
            {"verbose", {"-v"}, {}, false},
            {"config", {"--config", folder / "run.ini"}, {}, false}};  // the command line wins
}

TEST(BatchOutput, IsResumedByTheSameSettingsAlone) {
    const TempFolder folder;
    const std::vector<Resumed> all = resumed_runs(folder);
    // Flags that select requests, and flags of the output.
    std::set<std::string> rest = {"input", "data", "limit", "skip", "shuffle", "output-path", "rouge", "force"};
    for (const Resumed& r : all) rest.insert(r.name);
    for (const std::string& name : flags_of_batch()) EXPECT_EQ(rest.count(name), 1u) << name << ": may it differ?";
    const std::vector<Json> two = {{{"prompt", "And God said"}}, {{"prompt", "In the beginning"}}};
    for (const Resumed& r : all) {
        if (r.flags.empty()) continue;
        const BatchFiles files(two);
        const auto run = [&](const Words& more) {
            Words words = {"batch", "--input", files.input(), "-o", files.output()};
            const auto add = [&](const Words& w) { words.insert(words.end(), w.begin(), w.end()); };
            const bool other_model = std::ranges::find(r.beside, "-m") != r.beside.end() || r.name == "model";
            if (!other_model || (r.name == "model" && more.front() == "--limit")) add({"-m", model()});
            add(r.beside);
            if (std::ranges::find(more, "-n") == more.end()) add({"-n", "4"});
            if (r.name != "temp" || more.front() == "--limit") add({"--temp", "0"});
            if (std::ranges::find(more, "-t") == more.end()) add({"-t", "1"});
            add(more);
            return trireme(words);
        };
        const ProcessResult first = run({"--limit", "1"});
        ASSERT_EQ(first.status, 0) << r.name << first.err;
        const std::string made = read_file(files.output());
        const ProcessResult second = run(r.flags);
        if (!r.refused) {
            EXPECT_EQ(second.status, 0) << r.name << second.err;
            EXPECT_THAT(files.texts(), SizeIs(2)) << r.name;
            continue;
        }
        EXPECT_EQ(second.status, 65) << r.name << second.err;
        EXPECT_THAT(error_lines(second), ElementsAre(HasSubstr("out.jsonl:1: was made"))) << r.name;
        EXPECT_EQ(read_file(files.output()), made) << r.name;
        if (r.name == "chat") continue;  // this model has no template
        Words anew = r.flags;
        anew.push_back("--force");
        EXPECT_EQ(run(anew).status, 0) << r.name;
        EXPECT_THAT(files.texts(), SizeIs(2)) << r.name;
    }
}

TEST(BatchOutput, NamesTheFlagThatDiffers) {
    const std::vector<Json> all = requests(2);
    const BatchFiles files(all);
    ASSERT_EQ(trireme(files.command({"--h2o", "--kv-window", "64"})).status, 0);
    // It is also refused if no request is left: the ROUGE of these texts would be reported for the other settings.
    EXPECT_THAT(refusal(files, {"--h2o", "--kv-window", "32"}),
                MatchesRegex("65/out.jsonl:1: .*--kv-window 64, .*--kv-window 32; .*--force"));
    EXPECT_THAT(refusal(files, {"--kv-window", "64"}),
                MatchesRegex("65/out.jsonl:1: .*--kv-policy h2o, .*--kv-policy full; .*--force"));
    EXPECT_EQ(trireme(files.command({"--h2o", "--kv-window", "64"})).status, 0);

    Json line = Json::parse(lines_of(read_file(files.output()))[0]);
    line.erase("settings");
    write_file(files.output(), line.dump() + "\n");
    EXPECT_THAT(refusal(files), MatchesRegex("65/out.jsonl:1: .* which settings .*--force"));
}

TEST(BatchOutput, KnowsAnotherCorpus) {
    const std::vector<Json> all = requests(2);
    const BatchFiles files(all);
    const Words suffix = {"--spec", "suffix", "--gamma", "3"};
    ASSERT_EQ(
        trireme(files.command(suffix + Words{"--limit", "1", "--suffix-corpus", data("texts/kjv_12k.txt")})).status, 0);
    EXPECT_THAT(refusal(files, suffix), AllOf(StartsWith("65/out.jsonl:1: "), HasSubstr("corpus ids ")));
}

// The tokenizer's path may change, its content may not. --dtype is compared as requested; the type that `auto` chose is
// not compared.
TEST(BatchOutput, KnowsAnotherTokenizer) {
    const TempFolder folder;
    const std::vector<Json> all = requests(2);
    const BatchFiles files(all);
    std::string bytes = read_file(model() + "/tokenizer.model");
    const size_t at = bytes.find("Israel");
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, 6, "Isreal");
    write_file(folder / "tokenizer.model", bytes);
    ASSERT_EQ(trireme(files.command({"--limit", "1"})).status, 0);
    EXPECT_THAT(refusal(files, {"--tokenizer", folder / "tokenizer.model"}),
                AllOf(StartsWith("65/out.jsonl:1: "), HasSubstr("model files ")));
    EXPECT_THAT(refusal(files, {"--dtype", "f16"}), MatchesRegex("65/out.jsonl:1: .*--dtype auto, .*--dtype f16; .*"));
    EXPECT_EQ(trireme(files.command({"--tokenizer", model() + "/tokenizer.model"})).status, 0);
}

TEST(BatchOutput, LeavesOutAByteOrderMark) {
    const std::vector<Json> all = requests(2), want = uninterrupted(all);
    const BatchFiles files(all);
    write_file(files.input(), "\xEF\xBB\xBF" + as_lines(all));
    ASSERT_EQ(trireme(files.command({"--limit", "1"})).status, 0);
    ASSERT_EQ(trireme(files.command()).status, 0);
    EXPECT_EQ(files.results(), want);
}

TEST(BatchOutput, OfOtherRequestsIsRefused) {
    std::vector<Json> all = requests(3);
    const BatchFiles files(all);
    ASSERT_EQ(trireme(files.command({"--limit", "2"})).status, 0);
    const std::string made = read_file(files.output());

    all[1]["max_tokens"] = 2;
    write_file(files.input(), as_lines(all));
    EXPECT_THAT(refusal(files), AllOf(StartsWith("65/out.jsonl:2: "), HasSubstr("in.jsonl:2")));
    EXPECT_EQ(read_file(files.output()), made);

    write_file(files.input(), as_lines({all[0]}));
    EXPECT_THAT(refusal(files), MatchesRegex("65/out.jsonl:2: .* 1; .*--force"));

    const Words lines = lines_of(made);
    write_file(files.output(), lines[1] + "\n");
    EXPECT_THAT(refusal(files), MatchesRegex("65/out.jsonl:1: .*index 1, want 0; .*--force"));
    write_file(files.output(), "{\"a\": 1}\n");
    EXPECT_THAT(refusal(files), MatchesRegex("65/out.jsonl:1: .*object .*index and request.*--force"));
    write_file(files.output(), "some text\n");
    EXPECT_THAT(refusal(files), HasSubstr("65/out.jsonl:1"));

    const ProcessResult anew = trireme(files.command({"--force"}));
    EXPECT_EQ(anew.status, 0) << anew.err;
    EXPECT_THAT(files.results(), SizeIs(1));
}

// Any process may hold the lock; here it is the shell tool flock.
TEST(BatchOutput, IsOneRunsAlone) {
    const BatchFiles files(requests(2));
    write_file(files.output(), "");
    Words words = {"flock", files.output(), TRIREME_PROGRAM};
    const Words command = files.command();
    words.insert(words.end(), command.begin(), command.end());

    const ProcessResult r = run_process(words);

    EXPECT_EQ(r.status, 73) << r.err;
    EXPECT_THAT(r.err, AllOf(HasSubstr("--output-path "), HasSubstr("another run")));
    EXPECT_EQ(read_file(files.output()), "");
}

// The order of keys, blanks and line ends have no meaning.
TEST(BatchOutput, KnowsARequestThatIsWrittenOtherwise) {
    const BatchFiles files({});
    write_file(files.input(),
               "{\"prompt\": \"And it\", \"max_tokens\": 2}\r\n{\"prompt\": \"God\", \"max_tokens\": 2}");
    ASSERT_EQ(trireme(files.command({"--limit", "1"})).status, 0);
    EXPECT_THAT(read_file(files.output()), HasSubstr("\"request\":{\"prompt\": \"And it\", \"max_tokens\": 2},"));
    write_file(files.input(), "{\"max_tokens\":2,\"prompt\":\"And it\"}\n{\"prompt\":\"God\",\"max_tokens\":2}\n");

    EXPECT_EQ(trireme(files.command()).status, 0);

    EXPECT_THAT(files.results(), SizeIs(2));
}

// What decides is the rule, whether a flag or the policy gives it.
TEST(BatchOutput, ComparesTheRuleOfOneSetNotItsSpelling) {
    const BatchFiles files(requests(2));
    const Words tova = {"--kv-policy", "tova", "--kv-window", "16"};
    const auto run = [&](const Words& more) {
        Words words = files.command(tova);
        words.insert(words.end(), more.begin(), more.end());
        return trireme(words);
    };
    ASSERT_EQ(run({"--limit", "1"}).status, 0);
    const ProcessResult other = run({"--kv-heads-share", "head"});
    EXPECT_EQ(other.status, 65) << other.err;
    EXPECT_THAT(other.err, HasSubstr("--kv-heads-share"));
    EXPECT_EQ(run({"--kv-heads-share", "layer"}).status, 0);
    EXPECT_EQ(files.texts().size(), 2u);
}

}  // namespace
}  // namespace trireme::test
