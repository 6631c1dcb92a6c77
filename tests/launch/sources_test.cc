// The environment and INI files as sources of flags.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/ini_file.h"
#include "tests/launch/parsed.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(Environment, SaysWhereAValueCameFrom) {
    EXPECT_THAT(refused_with({}, {"TRIREME_TOP_K=-1"}), HasSubstr("78 TRIREME_TOP_K '-1': want "));
    EXPECT_THAT(refused_with({}, {"TRIREME_FILE=a", "TRIREME_PROMPT=b"}),
                HasSubstr("78 TRIREME_PROMPT: contradicts TRIREME_FILE"));
}

TEST(Environment, WarnsOfVariablesThatNoFlagHas) {
    const Words environment = {"TRIREME_TOPK=1", "TRIREME_LOG=all", "TRIREME_TIMEOUT_S=3", "TRIREME_SEED=", "HOME=/"};

    const Invocation call = parse({"generate", "-m", "M", "-p", "P"}, environment);

    EXPECT_THAT(call.warnings, ElementsAre(MatchesRegex("TRIREME_TOPK: .* TRIREME_TOP_K")));
    EXPECT_EQ(call.options.seed, 0u);  // empty counts as unset
}

// Each of these variables was meant for trireme, and would have no effect.
TEST(Environment, WarnsOfVariablesInWhateverWayTheyAreMisspelt) {
    const struct {
        const char *line, *nearest;
    } cases[] = {
        {"TRIREME_SEDE=1", "TRIREME_SEED"},
        {"TRIREME_SEDE=", "TRIREME_SEED"},
        {"TRIREME_TIMEOUT=1", "TRIREME_TIMEOUT_S"},  // also variables that belong to no flag
        {"TRIREME_CUDA_LIB=/x", "TRIREME_CUDA_LIBS"},
        {"TRIREME_seed=1", "TRIREME_SEED"},
        {"trireme_seed=1", "TRIREME_SEED"},
        {"Trireme_Timeout_s=1", "TRIREME_TIMEOUT_S"},
        {"TRIREME_CTX-SIZE=1", "TRIREME_CTX_SIZE"},
        {"TRIREM_SEED=1", "TRIREME_SEED"},
        {"TIREME_SEED=1", "TRIREME_SEED"},
        {"TRIREMESEED=1", "TRIREME_SEED"},
        {"TRIREME_XYZZY_PLUGH=1", nullptr},
    };
    for (const auto& [line, nearest] : cases) {
        const std::string name = std::string(line).substr(0, std::string(line).find('='));
        for (const Words& words :
             {Words{"generate", "-m", "M", "-p", "P"}, Words{"doctor"}, Words{"plan", "-m", "M"}}) {
            const Words warnings = parse(words, {line}).warnings;
            ASSERT_EQ(warnings.size(), 1u) << line;
            EXPECT_THAT(warnings[0], testing::StartsWith(name + ": no flag "));
            if (nearest == nullptr) continue;
            EXPECT_THAT(warnings[0], testing::EndsWith(std::string(" ") + nearest));
        }
    }
    for (const char* line : {"TRIREME_TIMEOUT_S=3", "TRIREME_LOG=", "TERM=x", "PRIME_SEED=1", "TIME_STYLE=x", "SEED=1",
                             "LOG=1", "_=/bin/trireme", "OLDPWD=/trireme_seed", "TRIREME_DEMO_MODEL=x", "TRIREME=x",
                             "TRIREME_SLURM_MODES=x", "TRIREME_LAUNCHER=mpirun"}) {
        EXPECT_THAT(parse({"doctor"}, {line}).warnings, testing::IsEmpty()) << line;
    }
}

TEST(Ini, RefusesWhatIsNoPlainText) {
    const std::string nul("seed = 0\0x\n", 11);
    const IniFile file(nul), path("trace = a" + std::string(1, '\0') + "b\n"),
        utf16("\xff\xfes\0e\0" + std::string("e\0d\0", 4));
    for (const IniFile* f : {&file, &path, &utf16}) {
        EXPECT_THAT(refused_with({"--config", f->path()}), HasSubstr("78 " + f->path() + ":1: a NUL byte"));
    }
}

TEST(Ini, MayBeginWithAByteOrderMark) {
    const IniFile file("\xef\xbb\xbfseed = 5\ntop-k = 7\n");
    EXPECT_EQ(options({"--config", file.path()}).seed, 5u);
    EXPECT_EQ(options({"--config", file.path()}).sampling.top_k, 7);
    const IniFile elsewhere("seed = 5\n\xef\xbb\xbftop-k = 7\n");
    EXPECT_THAT(refused_with({"--config", elsewhere.path()}), HasSubstr(":2: "));
}

TEST(Ini, TakesCommentsBlanksAndAliases) {
    const IniFile file("# a run\r\n\n  seed =  5   # five\nmax-tokens=9\n\tignore-eos = yes\n");

    const Options o = options({"--config", file.path()});

    EXPECT_EQ(o.seed, 5u);
    EXPECT_EQ(o.n_predict, 9);
    EXPECT_TRUE(o.ignore_eos);
}

TEST(Ini, NamesTheLineOfEveryMistake) {
    const struct {
        const char *text, *want;
    } cases[] = {
        {"seed = 1\nsed = 2\n", ":2: sed: unknown .* seed"},
        {"seed = 1\n\nseed = 2\n", ":3: seed: given twice .*"},
        {"top-k = -1\n", ":1: top-k '-1': want .*"},
        {"[sampling]\n", ":1: '\\[sampling\\]': want .*"},
        {"seed\n", ":1: 'seed': want .*"},
        {"stop = C#\n", ":1: '#' .*"},
        {"config = other.ini\n", ":1: config: .*"},
        {"file = a\nprompt = b\n", ":2: prompt: contradicts .*"},
        {"-m = a\n", ":1: -m: unknown .*"},
        {"= a\n", ":1: .*"},
    };
    for (const auto& [text, want] : cases) {
        const IniFile file(text);
        const std::string message = refused_with({"--config", file.path()});
        EXPECT_THAT(message, MatchesRegex("78 " + file.path() + want));
    }
}

TEST(Ini, MustBeThere) {
    EXPECT_THAT(refused_with({"--config", "/nowhere/run.ini"}), HasSubstr("66 /nowhere/run.ini: "));
    EXPECT_THAT(refused_with({"--config", "/"}), HasSubstr("66 /: "));
}

}  // namespace
}  // namespace trireme::test
