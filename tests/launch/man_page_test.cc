#include "launch/flags/man_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/flags/flags.h"
#include "launch/flags/help.h"
#include "runtime/error.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

bool installed(const std::string& program) {
    return run_process({"sh", "-c", "command -v " + program}).status == 0;
}

/// Replaces each sequence of white space by one blank.
std::string one_line(const std::string& text) {
    std::string line;
    for (const char c : text) {
        const bool blank = c == ' ' || c == '\n';
        if (!blank) line += c;
        if (blank && !line.ends_with(' ')) line += ' ';
    }
    return line;
}

/// The page as mandoc renders it, in one line, without emphasis.
std::string rendered() {
    const TempFolder folder;
    write_file(folder / "trireme.1", man_page());
    const ProcessResult shown = run_process({"mandoc", "-T", "ascii", "-O", "width=1000", folder / "trireme.1"});
    EXPECT_EQ(shown.status, 0) << shown.err;
    std::string text;
    for (const char c : shown.out) {
        if (c == '\b') {
            text.pop_back();  // bold is printed as a letter, backspace, the letter again
        } else {
            text += c;
        }
    }
    return one_line(text);
}

/// The first line of a flag's entry: "-n, --n-predict TOKENS".
std::string tag_of(const Flag& flag) {
    std::string tag;
    for (const std::string_view s : flag.spellings) tag += (tag.empty() ? "" : ", ") + std::string(s);
    return flag.is_switch() ? tag : tag + " " + std::string(flag.value);
}

TEST(ManPage, ShowsEveryFlagOfEveryCommandAsHelpDoes) {
    if (!installed("mandoc")) GTEST_SKIP() << "mandoc is not installed (launch/packages.txt)";
    const std::string page = rendered();
    for (const Flag& flag : flags()) {
        const std::string value = flag.show(Options{});
        std::string names;
        for (const Command c : commands()) {
            if (flag.belongs_to(c)) names += (names.empty() ? "" : ", ") + std::string(name_of(c));
        }
        EXPECT_THAT(page, HasSubstr(one_line(fmt::format("{} {} Default: {}. Variable: {}. Commands: {}.", tag_of(flag),
                                                         flag.help, value.empty() ? flag.fallback : value,
                                                         flag.env_name(), names))))
            << flag.name;
    }
    for (const Command c : commands()) EXPECT_THAT(page, HasSubstr(fmt::format("trireme {} [flags]", name_of(c))));
}

TEST(ManPage, HasNothingThatMandocWarnsOf) {
    if (!installed("mandoc")) GTEST_SKIP() << "mandoc is not installed (launch/packages.txt)";
    const TempFolder folder;
    write_file(folder / "trireme.1", man_page());
    const ProcessResult lint = run_process({"mandoc", "-T", "lint", "-W", "warning", folder / "trireme.1"});
    EXPECT_EQ(lint.out + lint.err, "");
    EXPECT_EQ(lint.status, 0);
}

TEST(ManPage, HasNothingThatManWarnsOf) {
    if (!installed("man")) GTEST_SKIP() << "man is not installed";
    const TempFolder folder;
    write_file(folder / "trireme.1", man_page());
    const ProcessResult shown =
        run_process({"man", "--warnings=w", "-E", "UTF-8", "-l", "-Tutf8", folder / "trireme.1"},
                    {.environment = {"MANWIDTH=80", "LC_ALL=C.UTF-8"}});
    EXPECT_EQ(shown.status, 0);
    EXPECT_EQ(shown.err, "");
    EXPECT_THAT(shown.out, HasSubstr("TRIREME(1)"));
}

}  // namespace
}  // namespace trireme::test
