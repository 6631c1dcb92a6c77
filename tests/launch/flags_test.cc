#include "launch/flags/flags.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/flags/command_line.h"
#include "launch/flags/help.h"
#include "runtime/error.h"
#include "tests/launch/ini_file.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

// A valid value of every flag, different from its default. The tests below fail if a flag is missing here.
const std::map<std::string, std::string> kExamples = {
    {"model", "models/a"},
    {"tokenizer", "t.json"},
    {"prompt", "Hello"},
    {"file", "text.txt"},
    {"prompt-ids", "ids.json"},
    {"session", "turns.jsonl"},
    {"add-special", "on"},
    {"chat", "on"},
    {"system", "Be terse."},
    {"ctx-size", "4096"},
    {"n-predict", "12"},
    {"parallel", "3"},
    {"layer-map", "0_0_2_2"},
    {"average", "on"},
    {"quantise", "Q4_K_M"},
    {"random", "7"},
    {"passes", "exact"},
    {"passes-tolerance", "0.5"},
    {"num-samples", "3"},
    {"stop", "END"},
    {"ignore-eos", "on"},
    {"print", "ids"},
    {"seed", "18446744073709551615"},
    {"temp", "0.25"},
    {"top-k", "7"},
    {"top-p", "0.5"},
    {"min-p", "0.125"},
    {"dtype", "bf16"},
    {"activations", "f32"},
    {"cache-type-k", "f32"},
    {"cache-type-v", "bf16"},
    {"kv-cache-dtype", "f32"},
    {"kv-on-chip", "3"},
    {"kv-ring", "5"},
    {"device-memory", "1000000"},
    {"host-memory", "2000000"},
    {"link-gbps", "12.5"},
    {"link-us", "7"},
    {"ranks", "2"},
    {"device-gbps", "900"},
    {"host-gbps", "40.5"},
    {"device-tflops", "82.5"},
    {"reduce-us", "12.5"},
    {"reduce-gbps", "11.5"},
    {"kv-verify", "on"},
    {"kv-wire", "coded"},
    {"layer-window", "W+1"},
    {"kv-policy", "h2o"},
    {"h2o", "on"},
    {"kv-window", "0.25"},
    {"kv-heavy", "20"},
    {"kv-sinks", "2"},
    {"kv-positions", "rolling"},
    {"kv-rolling", "on"},
    {"kv-gqa", "max"},
    {"kv-heads-share", "layer"},
    {"kv-score-dtype", "f16"},
    {"kv-decay", "0.5"},
    {"kv-normalise", "on"},
    {"kv-observe", "32"},
    {"kv-pool", "7"},
    {"kv-every", "16"},
    {"kv-chunk", "128"},
    {"kv-dump", "kept.jsonl"},
    {"reselect", "never"},
    {"reselect-queries", "8"},
    {"spec", "draft"},
    {"draft-window", "512"},
    {"model-draft", "models/d"},
    {"suffix-corpus", "earlier"},
    {"spec-draft-n-max", "16"},
    {"gamma-inner", "2"},
    {"spec-costs", "r.json"},
    {"save-kv", "s.h5"},
    {"load-kv", "s.h5"},
    {"checkpoint-every", "500"},
    {"grace", "25"},
    {"accept-rate", "0.95,0.5"},
    {"tree-size", "48"},
    {"siblings", "3"},
    {"retrieval-budget", "4096"},
    {"retrieval-chunk", "32"},
    {"modes", "none@12,draft"},
    {"repetitions", "3"},
    {"prefill", "7680"},
    {"data", "texts"},
    {"dataset", "gs"},
    {"output", "csv"},
    {"require-exact", "on"},
    {"input", "in.jsonl"},
    {"output-path", "out.jsonl"},
    {"limit", "10"},
    {"skip", "3"},
    {"shuffle", "18446744073709551615"},
    {"tokens", "books"},
    {"rouge", "summary_gt"},
    {"window", "1024"},
    {"stride", "512"},
    {"rule", "llama"},
    {"strict", "on"},
    {"suite", "ruler,needle"},
    {"lengths", "2048,8000"},
    {"tasks", "vt,cwe"},
    {"shard", "1/4"},
    {"no-bos", "on"},
    {"device", "cuda:1"},
    {"no-graphs", "on"},
    {"threads", "2"},
    {"bind", "none"},
    {"tensor-parallel-size", "2"},
    {"report-json", "r.json"},
    {"record", "runs.h5"},
    {"records", "runs.h5"},
    {"dump-logits", "l.h5"},
    {"trace", "t.json"},
    {"force", "on"},
    {"no-progress", "on"},
    {"quiet", "on"},
    {"log-level", "error"},
    {"verbose", "on"},
    {"config", ""},
};

Command command_of(const Flag& flag) {
    for (const Command c : commands()) {
        if (flag.belongs_to(c)) return c;
    }
    ADD_FAILURE() << flag.name << " belongs to no command";
    return Command::kGenerate;
}

bool names_text(const Flag& flag) {
    return flag.name == "prompt" || flag.name == "file" || flag.name == "prompt-ids" || flag.name == "session" ||
           flag.name == "data" || flag.name == "dataset";
}

// The flag's value in a run with these sources. The model, prompt and files that the command requires are added.
std::string seen(const Flag& flag, const Words& line, const Words& environment) {
    Words words = {std::string(name_of(command_of(flag)))};
    words.insert(words.end(), line.begin(), line.end());
    Words lines = environment;
    if (flag.name != "model") lines.push_back("TRIREME_MODEL=M");
    if (!names_text(flag)) lines.push_back("TRIREME_PROMPT=P");
    if (flag.name != "records") lines.push_back("TRIREME_RECORDS=R");
    if (flag.name != "suite") lines.push_back("TRIREME_SUITE=needle");
    if (flag.name != "input") lines.push_back("TRIREME_INPUT=I");
    if (flag.name != "output-path") lines.push_back("TRIREME_OUTPUT_PATH=O");
    return flag.show(parse_command_line(words, lines).options);
}

TEST(Flags, HaveUniqueSpellings) {
    std::set<std::string> all;
    for (const Flag& flag : flags()) {
        for (const std::string_view s : flag.spellings) {
            for (const Command c : commands()) {
                if (!flag.belongs_to(c)) continue;
                EXPECT_TRUE(all.insert(fmt::format("{} {}", name_of(c), s)).second) << s;
                EXPECT_EQ(find_spelling(s, c), &flag);
            }
            // The environment and files do not name a command, so long spellings are unique over all commands.
            if (s.starts_with("--")) {
                EXPECT_TRUE(all.insert(std::string(s)).second) << s;
            }
        }
        EXPECT_EQ(find_key(flag.name), &flag) << "no spelling --" << flag.name;
        EXPECT_TRUE(all.insert(flag.env_name()).second);
        for (const std::string_view other : flag.conflicts) {
            const Flag* o = find_key(other);
            ASSERT_NE(o, nullptr) << other;
            EXPECT_THAT(o->conflicts, testing::Contains(flag.name));
        }
    }
}

TEST(Flags, MaySpellTheSameInDifferentCommands) {
    const auto parsed = [](const Words& words) { return parse_command_line(words, {}).options; };
    EXPECT_EQ(parsed({"bench", "-m", "M", "-p", "P", "-r", "7"}).repetitions, 7);
    EXPECT_THAT(parsed({"generate", "-m", "M", "-p", "P", "-r", "7"}).stop, testing::ElementsAre("7"));
    EXPECT_THROW(parsed({"score", "-m", "M", "-p", "P", "-r", "7"}), Error);
}

constexpr size_t kWide = 10000;  // every description on one line

TEST(Flags, AreAllDocumented) {
    for (const Flag& flag : flags()) {
        const std::string text = help_text(command_of(flag), "", kWide);
        EXPECT_FALSE(flag.help.empty());
        for (const std::string_view s : flag.spellings) EXPECT_THAT(text, HasSubstr(std::string(s)));
        EXPECT_THAT(text, HasSubstr(std::string(flag.help)));
        const std::string value = flag.show(Options{});
        EXPECT_FALSE(value.empty() && flag.fallback.empty()) << flag.name << ": --help would show no default";
        EXPECT_THAT(text, HasSubstr(fmt::format("[default: {}]", value.empty() ? flag.fallback : value)));
    }
}

TEST(Flags, AreListedOnlyWhereTheyBelong) {
    for (const Command c : commands()) {
        const std::string text = help_text(c, "", kWide);
        for (const Flag& flag : flags()) {
            const bool listed = text.find("  " + std::string(flag.help) + " [default") != std::string::npos;
            EXPECT_EQ(listed, flag.belongs_to(c)) << flag.name << " in " << name_of(c);
        }
    }
}

TEST(Flags, MeanTheSameInAllThreeSources) {
    for (const Flag& flag : flags()) {
        if (flag.name == "config") continue;  // is valid on the command line and in the environment only
        ASSERT_TRUE(kExamples.contains(std::string(flag.name))) << flag.name << ": no example";
        const std::string value = kExamples.at(std::string(flag.name));
        ASSERT_NE(flag.show(Options{}), value) << flag.name << ": the example is the default";
        const IniFile file(fmt::format("{} = {}\n", flag.name, value));

        for (const std::string_view s : flag.spellings) {
            EXPECT_EQ(seen(flag, {fmt::format("{}={}", s, value)}, {}), value) << s;
            if (flag.is_switch()) {
                EXPECT_EQ(seen(flag, {std::string(s)}, {}), "on");
            } else {
                EXPECT_EQ(seen(flag, {std::string(s), value}, {}), value) << s;
            }
        }
        EXPECT_EQ(seen(flag, {}, {fmt::format("{}={}", flag.env_name(), value)}), value);
        if (!names_text(flag)) {
            EXPECT_EQ(seen(flag, {"--config", file.path()}, {}), value) << "INI " << flag.name;
        }
    }
}

TEST(Help, IsNoWiderThanTheTerminal) {
    std::vector<std::optional<Command>> all = {std::nullopt};
    for (const Command c : commands()) all.emplace_back(c);
    for (const std::optional<Command>& c : all) {
        for (const size_t width : {80u, 100u, 132u}) {
            for (const std::string& line : lines_of(help_text(c, "", width))) EXPECT_LE(line.size(), width) << line;
        }
    }
}

TEST(Help, ListsEachFlagOnceAndCommonOnesFirst) {
    const std::string text = help_text(Command::kGenerate, "");
    const std::string head = "\n  -n, --n-predict TOKENS";
    EXPECT_EQ(text.find(head), text.rfind(head));
    EXPECT_LT(text.find("Common flags"), text.find(head));
    EXPECT_LT(text.find(head), text.find("\nModel and prompt"));
    EXPECT_THAT(text, HasSubstr("\nExamples\n  trireme generate "));
}

TEST(Help, FindsCommandsAndDocuments) {
    const std::string text = help_text(std::nullopt, "perplexity");
    EXPECT_THAT(text, HasSubstr("\nCommands\n  trireme score: perplexity"));
    EXPECT_THAT(text, HasSubstr("\nDocuments\n  docs/tasks/evaluate.md: "));
}

TEST(Help, FindsAWord) {
    const std::string text = help_text(Command::kGenerate, "NUCLEUS");
    EXPECT_THAT(text, HasSubstr("No flag mentions 'NUCLEUS'"));
    EXPECT_THAT(help_text(Command::kGenerate, "temper"), HasSubstr("--temperature"));
    EXPECT_THAT(help_text(Command::kGenerate, "temper"), testing::Not(HasSubstr("--model")));
    EXPECT_THAT(help_text(std::nullopt, "hdf5"), HasSubstr("--dump-logits"));
    // Values, variables, and other spellings of a name.
    EXPECT_THAT(help_text(Command::kBench, "jsonl"), HasSubstr("--output"));
    for (const char* word : {"TRIREME_TOP_K", "top_k", "--top-k"}) {
        EXPECT_THAT(help_text(Command::kGenerate, word), HasSubstr("--top-k N"));
    }
}

TEST(Version, NamesCommitAndLibraries) {
    const std::string text = version_text();
    for (const char* what : {"trireme 0.", "(commit ", "compiler", "Open MPI", "HDF5", "Highway", "Boost", "PCRE2",
                             "sentencepiece", "hwloc"}) {
        EXPECT_THAT(text, HasSubstr(what));
    }
}

}  // namespace
}  // namespace trireme::test
