#include "launch/flags/foreign_flags.h"

#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/flags/command_line.h"
#include "launch/flags/flags.h"
#include "runtime/error.h"
#include "tests/launch/ini_file.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

std::string refusal(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"generate", "-m", "M", "-p", "P"};
    words.insert(words.end(), more.begin(), more.end());
    try {
        parse_command_line(words, {});
    } catch (const Error& e) {
        return fmt::format("{} {}", static_cast<int>(e.code()), e.what());
    }
    return "accepted";
}

TEST(ForeignFlags, AreAnsweredWithWhatToUseHere) {
    const struct {
        const char *flag, *use;
    } cases[] = {
        {"--no-kv-offload", "--kv-on-chip"},
        {"--gpu-memory-utilization", "--device-memory"},
        {"--swap-space", "--host-memory"},
        {"--numa", "--bind"},
        {"-s", "--seed"},
        {"-tb", "-t"},
        {"--enforce-eager", "--no-graphs"},
        {"--enforce_eager", "--no-graphs"},
        {"--speculative-config", "--spec draft, --model-draft"},
        {"--draft", "--gamma"},
        {"--enable_streaming", "--kv-policy streaming"},
        {"--sink_cache", "--kv-policy streaming"},
        {"--tensor-split", "mpirun -n"},
        {"-cnv", "the command chat"},
        {"--jinja", "--chat"},
    };
    for (const auto& [flag, use] : cases) {
        EXPECT_THAT(refusal({flag, "1"}), HasSubstr(fmt::format("64 {}: use {}", flag, use)));
        EXPECT_THAT(refusal({fmt::format("{}=1", flag)}), HasSubstr(fmt::format("64 {}: use ", flag)));
    }
}

TEST(ForeignFlags, AreAnsweredWithWhyThereIsNoSuchThing) {
    for (const char* flag :
         {"--prompt-cache", "--cpu-offload-gb", "--repeat-penalty", "--max-num-seqs", "--lora", "--keep"}) {
        EXPECT_THAT(refusal({flag, "1"}), HasSubstr(fmt::format("64 {}: not supported", flag)));
    }
    const IniFile file("seed = 1\nlora = a\n");
    EXPECT_THAT(refusal({"--config", file.path()}), testing::ContainsRegex(":2: lora: .*not supported"));
}

// These flags do not change results: users of llama.cpp, vLLM and transformers need not remove them.
TEST(ForeignFlags, AreIgnoredWithAWarningWhereTheyChangeNothing) {
    const std::vector<std::string> own = {"generate", "-m", "M", "-p", "P", "--seed", "7"};
    const std::vector<std::string> foreign[] = {{"-fa", "on"},
                                                {"-fa"},
                                                {"--flash-attn", "auto"},
                                                {"-ngl", "99"},
                                                {"--n-gpu-layers=99"},
                                                {"--no-mmap"},
                                                {"--mlock"},
                                                {"-b", "2048"},
                                                {"-ub", "512"},
                                                {"--batch_size", "8"},
                                                {"--color"},
                                                {"--no-display-prompt"},
                                                {"-no-cnv"},
                                                {"-st"},
                                                {"--perf"},
                                                {"--no-warmup"},
                                                {"--trust-remote-code"},
                                                {"--block-size", "16"},
                                                {"--do_sample"},
                                                {"--device_map", "auto"},
                                                {"--attn_implementation", "sdpa"}};
    for (const auto& words : foreign) {
        for (const bool first : {true, false}) {
            std::vector<std::string> all = own;
            all.insert(first ? all.begin() + 1 : all.end(), words.begin(), words.end());
            const Invocation call = parse_command_line(all, {});
            ASSERT_EQ(call.warnings.size(), 1u) << words[0];
            EXPECT_THAT(call.warnings[0], testing::StartsWith(words[0].substr(0, words[0].find('=')) + ": ignored: "));
            EXPECT_EQ(call.options.model, "M");
            EXPECT_EQ(call.options.prompt, "P");
            EXPECT_EQ(call.options.seed, 7u);
        }
    }
}

TEST(ForeignFlags, AreAllReportedAtOnce) {
    EXPECT_THAT(refusal({"--lora", "x", "--wibble", "3", "-t", "1", "--records", "f", "--host", "h"}),
                testing::MatchesRegex("64 --lora: not supported .*; --wibble: unknown .*trireme generate --help; "
                                      "--records: .*trireme generate, .*report; --host: not supported .*"));
}

TEST(ForeignFlags, UnderscoresAndDashesAreAlike) {
    for (const auto& [name, value] :
         {std::pair("--n_predict", "3"), {"--max_new_tokens", "3"}, {"--gen-len", "3"}, {"--length", "3"}}) {
        EXPECT_EQ(parse_command_line(std::vector<std::string>{"generate", "-m", "M", "-p", "P", name, value}, {})
                      .options.n_predict,
                  3);
    }
    const std::vector<std::string> words = {
        "generate", "--model_name_or_path", "M", "--prompt",    "P",   "--num_return_sequences",
        "2",        "--num_sink_tokens",    "3", "--kv_policy", "h2o", "--torch_dtype",
        "f32"};
    const Options o = parse_command_line(words, {}).options;
    EXPECT_EQ(o.model, "M");
    EXPECT_EQ(o.num_samples, 2);
    EXPECT_EQ(o.eviction.sinks, 3);
    EXPECT_EQ(o.dtype, DType::kF32);
    const IniFile file("kv_on_chip = 5\ntop_k = 3\n");
    const Options read =
        parse_command_line(std::vector<std::string>{"generate", "-m", "M", "-p", "P", "--config", file.path()}, {})
            .options;
    EXPECT_EQ(read.kv_on_chip, 5);
    EXPECT_EQ(read.sampling.top_k, 3);
}

// Names of TriForce, llama.cpp and vLLM for flags that have another name here.
TEST(ForeignFlags, AreOursWhereTheyMeanTheSame) {
    const struct {
        const char *theirs, *ours;
    } cases[] = {{"--on_chip", "--kv-on-chip"},
                 {"--gen_len", "-n"},
                 {"--top_p", "--top-p"},
                 {"--temp", "--temperature"},
                 {"--chunk_size", "--chunk-size"},
                 {"--draft_cache_budget", "--draft-window"},
                 {"--tree_size", "--tree-size"},
                 {"--draft-max", "--gamma"},
                 {"--draft-n", "--gamma"},
                 {"--num-speculative-tokens", "--gamma"},
                 {"--spec-draft-n-max", "--gamma"},
                 {"--spec-type", "--spec"},
                 {"--speculative-model", "-md"},
                 {"--max-model-len", "-c"},
                 {"--max-tokens", "--max-new-tokens"},
                 {"--budget", "--retrieval-budget"}};
    for (const auto& [theirs, ours] : cases) {
        ASSERT_NE(find_spelling(theirs), nullptr) << theirs;
        EXPECT_EQ(find_spelling(theirs), find_spelling(ours)) << theirs;
    }
}

// Every flag that the table names must exist in this program.
TEST(ForeignFlags, NameFlagsThatThereAre) {
    std::set<std::string_view> all;
    for (const ForeignFlags& f : foreign_flags()) {
        for (const std::string_view name : f.names) {
            EXPECT_EQ(find_spelling(name), nullptr) << name << " is a flag of trireme";
            EXPECT_TRUE(all.insert(name).second) << name << " stands there twice";
        }
        const std::string answer(f.answer);
        EXPECT_TRUE(answer.starts_with("use ") || answer.starts_with("not supported here: ") ||
                    f.harmless != ForeignFlags::Harmless::kNo)
            << answer;
        const std::regex flag("(^|[ (])(-{1,2}[a-z][a-z-]*)");
        for (std::sregex_iterator it(answer.begin(), answer.end(), flag), end; it != end; ++it) {
            const std::string name = (*it)[2];
            const bool launchers = name == "-n" || name == "--map-by";
            EXPECT_TRUE(launchers || find_spelling(name) != nullptr) << name << " in: " << answer;
        }
    }
}

}  // namespace
}  // namespace trireme::test
