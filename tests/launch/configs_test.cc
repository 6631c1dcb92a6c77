// The files in configs/ are valid, and the README there names every key.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/flags/chain_spec.h"
#include "launch/flags/command_line.h"
#include "launch/flags/flags.h"
#include "launch/flags/sources.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

TEST(Configs, AreLegal) {
    int64_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(TRIREME_CONFIGS)) {
        if (entry.path().extension() != ".ini") continue;
        SCOPED_TRACE(entry.path().filename());
        const std::vector<std::string> words = {"score", "--config", entry.path().string(), "-m", "M", "-p", "P"};
        EXPECT_EQ(parse_command_line(words, {}).options.prompt, "P");
        EXPECT_FALSE(read_ini(entry.path().string()).empty());
        ++files;
    }
    EXPECT_GE(files, 5);
}

Options parsed(const std::vector<std::string>& words) {
    return parse_command_line(words, {}).options;
}

// TriForce's runs, and smaller versions of them. Each is the chain of its name, with TriForce's figures or the same
// fractions of a shorter text and fewer layers.
TEST(RunConfigs, AreWhatTheirNamesSay) {
    const struct {
        const char *name, *modes;
        int64_t prefill, on_chip, budget, chunk, gamma, ranks;
    } runs[] = {
        {"triforce-on-chip", "none,triforce", 124928, PlanInput::kAll, 4096, 16, 6, 1},
        {"triforce-2-gpu", "none@auto,none@12,triforce", 130048, 9, 12288, 8, 16, 2},
        {"triforce-1-gpu", "none@auto,none@2,triforce", 130048, 0, 8192, 16, 12, 1},
        {"baseline-2-gpu", "none", 130048, 12, 0, 8, GammaController::kAuto, 2},
        {"baseline-1-gpu", "none", 130048, 2, 0, 8, GammaController::kAuto, 1},
        {"laptop-triforce-on-chip", "none,triforce", 7680, PlanInput::kAll, 256, 8, 6, 1},
        {"laptop-triforce-2-ranks", "none@11,triforce", 7680, 8, 768, 8, 16, 2},
        {"laptop-triforce-1-rank", "none@2,triforce", 7680, 0, 512, 8, 12, 1},
        {"laptop-baseline-2-ranks", "none", 7680, 11, 0, 8, GammaController::kAuto, 2},
        {"laptop-baseline-1-rank", "none", 7680, 2, 0, 8, GammaController::kAuto, 1},
    };
    for (const auto& run : runs) {
        SCOPED_TRACE(run.name);
        const std::string file = fmt::format("{}/{}.ini", TRIREME_CONFIGS, run.name);
        const Options o = parsed({"bench", "--config", file, "-m", "M", "-md", "D"});
        const bool speculates = std::string(run.name).find("triforce") != std::string::npos;
        EXPECT_EQ(find_key("modes")->show(o), run.modes);
        EXPECT_EQ(o.modes.back().chain, speculates ? "triforce" : "none");
        EXPECT_EQ(o.prefill, run.prefill);
        EXPECT_EQ(o.kv_on_chip, run.on_chip);
        EXPECT_EQ(o.retrieval_budget, run.budget);
        EXPECT_EQ(o.retrieval_chunk, run.chunk);
        EXPECT_EQ(o.gamma, run.gamma);
        EXPECT_EQ(o.gamma_inner, speculates ? 1 : GammaController::kAuto);
        EXPECT_EQ(o.tensor_parallel, run.ranks);
        EXPECT_GE(o.ctx_size, o.prefill + o.n_predict);
        EXPECT_NE(o.prompt_from, PromptFrom::kNowhere);
        EXPECT_EQ(o.sampling.temperature, 0.6);
        EXPECT_EQ(o.sampling.top_p, 0.9);

        // generate reads the same file, and runs the chain of the last mode.
        const Options g = parsed({"generate", "--config", file, "-m", "M", "-p", "P"});
        EXPECT_EQ(text_of(g.spec), text_of(parse_chain(o.modes.back().chain).value()));

        // A text on the command line overrides that of the file.
        const Options f = parsed({"bench", "--config", file, "-m", "M", "-f", "T"});
        EXPECT_EQ(f.prompt_from, PromptFrom::kFile);
        EXPECT_EQ(f.prompt, "T");
    }
}

// LCKV's latency test, and a smaller version of it.
TEST(RunConfigs, MeasureSamplesSideBySide) {
    for (const char* name : {"lckv-latency", "laptop-lckv-latency"}) {
        const Options o =
            parsed({"bench", "--config", fmt::format("{}/{}.ini", TRIREME_CONFIGS, name), "-m", "M", "-f", "T"});
        EXPECT_TRUE(o.side_by_side());
        EXPECT_EQ(find_key("modes")->show(o), "none");
        EXPECT_EQ(o.sampling.temperature, 1);
        EXPECT_EQ(o.sampling.top_p, 0.9);
        EXPECT_EQ(o.sampling.top_k, 0);
        EXPECT_EQ(o.add_special, false);
    }
}

// Texts of any length: budgets are those of H2O's cookbook and LCKV's paper.
TEST(RunConfigs, StreamsKeepWhatIsPublished) {
    const struct {
        const char* name;
        KvPolicy policy;
        int64_t window, heavy, sinks;
    } runs[] = {{"h2o-stream", KvPolicy::kH2o, 3584, 1792, -1}, {"lckv-stream", KvPolicy::kStreaming, 1024, -1, 4}};
    for (const auto& run : runs) {
        SCOPED_TRACE(run.name);
        const std::string file = fmt::format("{}/{}.ini", TRIREME_CONFIGS, run.name);
        for (const char* command : {"generate", "score"}) {
            const Options o = parsed({command, "--config", file, "-m", "M", "-f", "T"});
            EXPECT_EQ(o.eviction.policy, run.policy);
            EXPECT_EQ(o.eviction.budget, run.window);
            EXPECT_EQ(o.eviction.heavy, run.heavy);
            EXPECT_EQ(o.eviction.sinks, run.sinks);
            EXPECT_TRUE(o.eviction.rolling);
            EXPECT_GT(o.eviction.chunk, 0);
        }
    }
}

TEST(Configs, HaveAReadmeWithEveryFile) {
    const std::string readme = read_file(TRIREME_CONFIGS "/README.md");
    for (const auto& entry : std::filesystem::directory_iterator(TRIREME_CONFIGS)) {
        if (entry.path().extension() == ".ini") {
            EXPECT_THAT(readme, testing::HasSubstr(fmt::format("`{}`", entry.path().filename().string())));
        }
    }
}

TEST(Configs, HaveAReadmeWithEveryKey) {
    const std::string readme = read_file(TRIREME_CONFIGS "/README.md");
    for (const Flag& flag : flags()) {
        if (flag.name == "config") continue;
        EXPECT_THAT(readme, testing::HasSubstr(fmt::format("`{}`", flag.name)));
    }
}

}  // namespace
}  // namespace trireme::test
