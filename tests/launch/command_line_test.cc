#include "launch/flags/command_line.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/flags/flags.h"
#include "launch/flags/help.h"
#include "tests/launch/ini_file.h"
#include "tests/launch/parsed.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(CommandLine, TakesTheSpellingsOfThePeers) {
    const Options o = options({"-n",  "7",         "-c",   "4K",       "-t",     "2",  "-tp",
                               "3",   "-ctk",      "bf16", "-ctv=f32", "-lv",    "5",  "--temperature",
                               "0.5", "--top-k=3", "-r",   "one",      "--stop", "two"});
    EXPECT_EQ(o.n_predict, 7);
    EXPECT_EQ(o.ctx_size, 4096);
    EXPECT_EQ(o.threads, 2);
    EXPECT_EQ(o.tensor_parallel, 3);
    EXPECT_EQ(o.cache_type_k, DType::kBF16);
    EXPECT_EQ(o.cache_type_v, DType::kF32);
    EXPECT_EQ(o.log_level, log::Level::kTrace);
    EXPECT_EQ(o.sampling.temperature, 0.5);
    EXPECT_EQ(o.sampling.top_k, 3);
    EXPECT_THAT(o.stop, ElementsAre("one", "two"));
    for (const char* same : {"-n", "--n-predict", "--max-new-tokens", "--max-tokens"}) {
        EXPECT_EQ(options({same, "9"}).n_predict, 9) << same;
    }
    EXPECT_EQ(options({"--kv-cache-dtype", "f32"}).cache_type_k, DType::kF32);
    EXPECT_EQ(options({"--kv-cache-dtype", "f32"}).cache_type_v, DType::kF32);
    EXPECT_EQ(options({"-ctk", "q8_0"}).cache_type_k, DType::kQ8_0);
    EXPECT_EQ(options({"-ctk", "q8_0"}).cache_type_v, DType::kF16);
    EXPECT_EQ(options({"--max-model-len", "64k"}).ctx_size, 64000);
}

TEST(CommandLine, TakesValuesThatLookLikeNothingElse) {
    EXPECT_EQ(options({"-n", "-1"}).n_predict, -1);
    EXPECT_EQ(parse({"generate", "-m", "M", "-p", "-x = y"}).options.prompt, "-x = y");
    EXPECT_EQ(parse({"generate", "-m", "M", "--prompt=--seed"}).options.prompt, "--seed");
    EXPECT_EQ(parse({"generate", "-m", "M", "-p", ""}).options.prompt, "");
    EXPECT_EQ(parse({"generate", "-m", "M", "-f", "-"}).options.prompt, "-");
}

TEST(CommandLine, RefusesUnknownFlagsWithTheNearest) {
    EXPECT_THAT(refused_with({"--sed", "1"}), MatchesRegex("64 --sed: unknown .* --seed"));
    EXPECT_THAT(refused_with({"--see=1"}), MatchesRegex("64 --see: unknown .* --seed"));  // no abbreviations
    EXPECT_THAT(refused_with({"--m", "X"}), MatchesRegex("64 --m: unknown .* -m"));
    EXPECT_THAT(refused_with({"-xyzzy"}), MatchesRegex("64 -xyzzy: unknown .*trireme generate --help"));
    EXPECT_THAT(refused_with({"word"}), MatchesRegex("64 'word': .*trireme generate --help.*"));
    EXPECT_THAT(refused_with({"--"}), HasSubstr("64 --: unknown"));
    EXPECT_THAT(refused_with({"-n16"}), HasSubstr("64 -n16: unknown"));
}

TEST(CommandLine, RefusesUnknownCommands) {
    EXPECT_THAT(refusal({"genrate"}), MatchesRegex("64 'genrate': .* generate"));
    EXPECT_THAT(refusal({"--seed", "1"}), HasSubstr("64 '--seed': "));
    EXPECT_THAT(refusal({}), HasSubstr("64 no command"));
    EXPECT_THAT(refusal({"--version", "x"}), HasSubstr("64 --version: takes no"));
    EXPECT_THAT(refusal({"--man", "trireme"}), HasSubstr("64 --man: takes no"));
    EXPECT_THAT(refusal({"--completion"}), HasSubstr("64 --completion: want a shell"));
    EXPECT_THAT(refusal({"--completion", "fish"}), HasSubstr("64 --completion: want a shell"));
}

// As in llama.cpp: users may append their own flags to those of a script.
TEST(CommandLine, TheLastOfARepeatedFlagWins) {
    EXPECT_EQ(options({"--seed", "1", "--seed", "2"}).seed, 2u);
    EXPECT_EQ(options({"--temp", "1", "--temperature=2", "--temp", "3"}).sampling.temperature, 3);
    EXPECT_EQ(options({"-p", "other"}).prompt, "other");
    EXPECT_FALSE(options({"--force", "--force=off"}).force);
    EXPECT_THAT(refused_with({"--top-k", "-1", "--top-k", "5"}), HasSubstr("accepted"));
    EXPECT_THAT(options({"--stop", "a", "--stop", "b"}).stop, ElementsAre("a", "b"));
    // Two different flags contradict each other, whatever their order: the intent is unknown.
    EXPECT_THAT(refused_with({"-f", "F", "-p", "Q"}), HasSubstr("64 -f: contradicts -p;"));
}

TEST(CommandLine, ASeedOfMinusOneIsToBeDrawn) {
    EXPECT_FALSE(options({"--seed", "-1"}).seed.has_value());
    EXPECT_FALSE(options({}, {"TRIREME_SEED=-1"}).seed.has_value());
    EXPECT_EQ(options({"--seed", "-1", "--seed", "3"}).seed, 3u);
    EXPECT_THAT(refused_with({"--seed", "x"}), HasSubstr(" 0 to 18446744073709551615, or -1"));
}

TEST(CommandLine, RefusesContradictions) {
    EXPECT_THAT(refused_with({"-f", "F"}), HasSubstr("64 -f: contradicts -p;"));
    EXPECT_THAT(refused_with({"--prompt-ids", "F"}), HasSubstr("64 --prompt-ids: contradicts -p;"));
    EXPECT_THAT(refused_with({"-ctk", "f16", "--kv-cache-dtype", "f16"}),
                HasSubstr("64 --kv-cache-dtype: contradicts -ctk;"));
    EXPECT_THAT(refused_with({"-v", "-lv", "3"}), HasSubstr("64 -lv: contradicts -v;"));
}

TEST(CommandLine, RefusesMissingValuesAndForeignFlags) {
    EXPECT_THAT(refused_with({"--seed"}), MatchesRegex("64 --seed: no value .* N"));
    EXPECT_THAT(refused_with({"--seed", "--temp", "1"}), MatchesRegex("64 --seed: no value, .*--seed=--temp"));
    EXPECT_THAT(refusal({"tokenize", "-m", "M", "-p", "P", "--seed", "1"}),
                MatchesRegex("64 --seed: .* trireme tokenize, .*"));
    EXPECT_THAT(refusal({"generate", "-p", "P"}), MatchesRegex("64 trireme generate: .*-m PATH"));
    EXPECT_THAT(refusal({"score", "-m", "M"}), HasSubstr("64 trireme score: no text"));
}

TEST(CommandLine, RefusesIllegalValuesOfEveryKind) {
    const struct {
        const char *flag, *value;
    } cases[] = {
        {"-c", "-1"},
        {"-c", "99999999999999999999"},
        {"-c", "1e9"},
        {"-c", "0x10"},
        {"-c", "7 "},
        {"-c", "9999999T"},
        {"-c", "16777217"},
        {"-n", "-2"},
        {"-n", "nan"},
        {"-t", "0"},
        {"-t", "1025"},
        {"--seed", "-2"},
        {"--seed", "1.5"},
        {"--temp", "nan"},
        {"--temp", "inf"},
        {"--temp", "-0.1"},
        {"--temp", "101"},
        {"--temp", "1e400"},
        {"--top-p", "0"},
        {"--top-p", "1.0001"},
        {"--top-p", "nan"},
        {"--top-k", "-1"},
        {"--top-k", "4294967296"},
        {"--min-p", "-1e-300"},
        {"--min-p", "2"},
        {"--seed", "18446744073709551616"},
        {"--dtype", "int8"},
        {"-ctk", "auto"},
        {"--device", "tpu"},
        {"--bind", "core"},
        {"--print", "json"},
        {"-lv", "6"},
        {"-tp", "0"},
        {"--num-samples", "0"},
        {"--stop", ""},
        {"--report-json", ""},
        {"--log-level", ""},
    };
    for (const auto& [flag, value] : cases) {
        EXPECT_THAT(refused_with({flag, value}), HasSubstr(fmt::format("78 {} '{}': want ", flag, value)));
    }
    EXPECT_THAT(refused_with({"-n", "0"}), HasSubstr("78 -n 0: generates nothing; want 1 or more"));
    EXPECT_EQ(options({"-n", "0", "--print", "prompt"}).n_predict, 0);
    EXPECT_THAT(refused_with({"-n", "-2"}), MatchesRegex("78 -n '-2': .*, or -1.*"));
    EXPECT_THAT(refused_with({"--force=maybe"}), HasSubstr("78 --force 'maybe': want on or off"));
}

TEST(CommandLine, ALaterSourceWins) {
    const IniFile file("seed = 1\ntop-k = 1\ntop-p = 0.5\nstop = a\nstop = b\nfile = F\n");
    const Words environment = {"TRIREME_SEED=2", "TRIREME_TOP_K=2", "TRIREME_STOP=c", "TRIREME_CONFIG=" + file.path()};

    const Options low = parse({"generate", "-m", "M"}, environment).options;
    const Options high = options({"--seed", "3", "--stop", "d"}, environment);

    EXPECT_EQ(low.seed, 2u);
    EXPECT_EQ(high.seed, 3u);
    EXPECT_EQ(high.sampling.top_k, 2);
    EXPECT_EQ(high.sampling.top_p, 0.5);
    EXPECT_EQ(high.sampling.min_p, Options{}.sampling.min_p);
    EXPECT_THAT(low.stop, ElementsAre("c"));
    EXPECT_THAT(high.stop, ElementsAre("d"));
    EXPECT_EQ(low.prompt_from, PromptFrom::kFile);   // from the file
    EXPECT_EQ(high.prompt_from, PromptFrom::kText);  // from the command line; sources do not contradict each other
    EXPECT_EQ(high.prompt, "P");
}

TEST(CommandLine, SwitchesCanBeTurnedOffAgain) {
    EXPECT_TRUE(options({"--ignore-eos"}).ignore_eos);
    EXPECT_TRUE(options({}, {"TRIREME_IGNORE_EOS=1"}).ignore_eos);
    EXPECT_FALSE(options({"--ignore-eos=off"}, {"TRIREME_IGNORE_EOS=1"}).ignore_eos);
}

TEST(CommandLine, HelpNeedsNothingElseToBeRight) {
    EXPECT_EQ(parse({"generate", "--help"}, {"TRIREME_TOP_K=-1"}).what, Invocation::What::kHelp);
    EXPECT_EQ(parse({"generate", "--help=seed"}).help_keyword, "seed");
    EXPECT_EQ(parse({"--help"}).what, Invocation::What::kHelp);
    EXPECT_EQ(parse({"--version"}).what, Invocation::What::kVersion);
    EXPECT_EQ(parse({"--list-devices"}).what, Invocation::What::kListDevices);
    EXPECT_EQ(parse({"--man"}).what, Invocation::What::kManPage);
    EXPECT_EQ(parse({"--completion", "bash"}).what, Invocation::What::kCompletion);
}

}  // namespace
}  // namespace trireme::test
