// The files in configs/ are legal, and its README names every key.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(Configs, HaveAReadmeWithEveryKey) {
    const std::string readme = read_file(TRIREME_CONFIGS "/README.md");
    for (const Flag& flag : flags()) {
        if (flag.name == "config") continue;
        EXPECT_THAT(readme, testing::HasSubstr(fmt::format("`{}`", flag.name)));
    }
}

}  // namespace
}  // namespace trireme::test
