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
        {"-ngl", "--kv-on-chip"},
        {"--n-gpu-layers", "--kv-on-chip"},
        {"--no-kv-offload", "--kv-on-chip"},
        {"--gpu-memory-utilization", "--device-memory"},
        {"--swap-space", "--host-memory"},
        {"--numa", "--bind"},
        {"-s", "--seed"},
        {"-tb", "-t"},
        {"--enforce-eager", "--no-graphs"},
        {"--speculative-config", "--spec draft, --model-draft"},
        {"--draft", "--gamma"},
        {"--tensor-split", "mpirun -n"},
    };
    for (const auto& [flag, use] : cases) {
        EXPECT_THAT(refusal({flag, "1"}), HasSubstr(fmt::format("64 {}: unknown flag; use {}", flag, use)));
        EXPECT_THAT(refusal({fmt::format("{}=1", flag)}), HasSubstr(fmt::format("64 {}: unknown flag; use ", flag)));
    }
}

TEST(ForeignFlags, AreAnsweredWithWhyThereIsNoSuchThing) {
    for (const char* flag : {"-b", "-ub", "--ubatch-size", "--prompt-cache", "--cpu-offload-gb", "--no-mmap", "--mlock",
                             "-fa", "--flash-attn", "--repeat-penalty", "--max-num-seqs", "--block-size", "--lora"}) {
        EXPECT_THAT(refusal({flag, "1"}), HasSubstr(fmt::format("64 {}: unknown flag; not supported: ", flag)));
    }
    const IniFile file("seed = 1\nbatch-size = 512\n");
    EXPECT_THAT(refusal({"--config", file.path()}), HasSubstr(":2: batch-size: unknown key; not supported: "));
}

// TriForce's, llama.cpp's and vLLM's names of what is here under another one.
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

// What the table says must be true of this program's flags.
TEST(ForeignFlags, NameFlagsThatThereAre) {
    std::set<std::string_view> all;
    for (const ForeignFlags& f : foreign_flags()) {
        for (const std::string_view name : f.names) {
            EXPECT_EQ(find_spelling(name), nullptr) << name << " is a flag of trireme";
            EXPECT_TRUE(all.insert(name).second) << name << " stands there twice";
        }
        const std::string answer(f.answer);
        EXPECT_TRUE(answer.starts_with("use ") || answer.starts_with("not supported: ")) << answer;
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
