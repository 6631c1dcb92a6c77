// Runs the laptop files of configs/ with smaller models, a shorter text and fewer tokens; the rest is unchanged.

#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;

struct Laptop {
    const char* name;
    int ranks;
    const char* on_chip;  // "all" is valid for any model; other files count the layers of a model that has 30
};

void PrintTo(const Laptop& l, std::ostream* out) {
    *out << l.name;
}

/// The value of a key in the file.
std::string value_in(const std::string& file, const std::string& key) {
    for (const std::string& line : lines_of(read_file(file))) {
        if (line.starts_with(key + " = ")) return line.substr(key.size() + 3);
    }
    ADD_FAILURE() << file << " has no " << key;
    return "";
}

class LaptopConfig : public testing::TestWithParam<Laptop> {};

TEST_P(LaptopConfig, Runs) {
    const auto& [name, ranks, on_chip] = GetParam();
    const std::string file = std::string(TRIREME_CONFIGS) + "/" + name + ".ini";
    const std::string modes = std::regex_replace(value_in(file, "modes"), std::regex("@[0-9]+"), "@2");
    const Words words = {"bench",
                         "--config",
                         file,
                         "-m",
                         model(),
                         "-md",
                         data("models/kjv-draft"),
                         "-f",
                         data("texts/kjv_12k.txt"),
                         "--prefill",
                         "600",
                         "-c",
                         "0",
                         "-n",
                         "8",
                         "-r",
                         "1",
                         "-t",
                         "1",
                         "--budget",
                         "64",
                         "--kv-on-chip",
                         on_chip,
                         "--modes",
                         modes,
                         "--temp",
                         "0",
                         "--require-exact",
                         "-o",
                         "json"};

    const ProcessResult r = ranks == 1 ? trireme(words) : trireme_on(ranks, words);

    ASSERT_EQ(r.status, 0) << r.err;
    const json table = json::parse(r.out);
    const bool speculates = std::string(name).find("triforce") != std::string::npos;
    ASSERT_EQ(table.size(), speculates ? 2u : 1u);
    EXPECT_EQ(table.back()["mode"], speculates ? "triforce" : "none");
    EXPECT_EQ(table.back()["n_ranks"], ranks);
    EXPECT_EQ(table.back()["h2d_bytes"] > 0, std::string(on_chip) != "all");
    if (speculates) {
        EXPECT_EQ(table.back()["levels"].size(), 2u);
    }
}

// The files require their number of ranks.
TEST_P(LaptopConfig, RefusesAnotherNumberOfRanks) {
    const auto& [name, ranks, on_chip] = GetParam();
    const Words words = {"bench",
                         "--config",
                         std::string(TRIREME_CONFIGS) + "/" + name + ".ini",
                         "-m",
                         model(),
                         "-f",
                         data("texts/kjv_12k.txt")};

    const ProcessResult r = ranks == 1 ? trireme_on(2, words) : trireme(words);

    EXPECT_EQ(r.status, 78) << r.err;
}

INSTANTIATE_TEST_SUITE_P(Configs, LaptopConfig,
                         testing::Values(Laptop{"laptop-triforce-on-chip", 1, "all"},
                                         Laptop{"laptop-triforce-2-ranks", 2, "1"},
                                         Laptop{"laptop-triforce-1-rank", 1, "0"},
                                         Laptop{"laptop-baseline-2-ranks", 2, "1"},
                                         Laptop{"laptop-baseline-1-rank", 1, "1"}),
                         [](const auto& param) { return std::regex_replace(param.param.name, std::regex("-"), "_"); });

}  // namespace
}  // namespace trireme::test
