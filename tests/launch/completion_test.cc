#include "launch/flags/completion.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/flags/flags.h"
#include "runtime/error.h"
#include "tests/support/process.h"

namespace trireme::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAreArray;
using Words = std::vector<std::string>;

/// The completions that bash offers for the last word of each command line. Words are separated by blanks, and '=' is a
/// word, as in readline. If a line ends with a blank, its last word is empty.
std::vector<Words> offered(const Words& command_lines) {
    const TempFolder folder;
    write_file(folder / "trireme.bash", bash_completion());
    write_file(folder / "with space.gguf", "");
    std::string program = "source ./trireme.bash || exit 9\n";
    for (const std::string& line : command_lines) {
        program += fmt::format("COMP_WORDS=({}{}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )); _trireme\n", line,
                               line.ends_with(' ') ? "''" : "");
        program += "printf '%s\\n' \"${COMPREPLY[@]}\" 'end of line'\n";
    }
    write_file(folder / "ask.bash", "set -u; cd \"${0%/*}\"\n" + program);
    const ProcessResult asked = run_process({"bash", "--norc", folder / "ask.bash"});
    EXPECT_EQ(asked.status, 0) << asked.err;
    EXPECT_EQ(asked.err, "");
    std::vector<Words> all(1);
    for (const std::string& line : lines_of(asked.out)) {
        if (line == "end of line") {
            all.emplace_back();
        } else if (!line.empty()) {
            all.back().push_back(line);
        }
    }
    all.pop_back();
    return all;
}
Words offered_for(const std::string& command_line) {
    return offered({command_line}).at(0);
}

TEST(Completion, IsAScriptThatBashReads) {
    const TempFolder folder;
    write_file(folder / "trireme.bash", bash_completion());
    const ProcessResult read = run_process({"bash", "-n", folder / "trireme.bash"});
    EXPECT_EQ(read.status, 0);
    EXPECT_EQ(read.err, "");
}

TEST(Completion, OffersCommandsFirst) {
    Words names = {"--help", "--version", "--list-devices", "--man", "--completion"};
    for (const Command c : commands()) names.emplace_back(name_of(c));
    EXPECT_THAT(offered_for("trireme "), UnorderedElementsAreArray(names));
    EXPECT_THAT(offered_for("trireme gen"), ElementsAre("generate"));
    EXPECT_THAT(offered_for("trireme --completion "), ElementsAre("bash"));
    EXPECT_THAT(offered_for("trireme nonsense -"), IsEmpty());
}

TEST(Completion, OffersEveryFlagOfEveryCommandAndNoOther) {
    for (const Command c : commands()) {
        Words all = spellings_of(c);
        all.insert(all.end(), {"-h", "--help"});
        EXPECT_THAT(offered_for(fmt::format("trireme {} ", name_of(c))), UnorderedElementsAreArray(all)) << name_of(c);
    }
}

TEST(Completion, OffersTheValuesThatEveryFlagNames) {
    struct Asked {
        const Flag* flag;
        Command command;
        std::string line;
    };
    std::vector<Asked> asked;
    for (const Command c : commands()) {
        for (const Flag& flag : flags()) {
            if (!flag.belongs_to(c)) continue;
            for (const std::string_view s : flag.spellings) {
                asked.push_back({&flag, c, fmt::format("trireme {} {} ", name_of(c), s)});
                asked.push_back({&flag, c, fmt::format("trireme {} {} = ", name_of(c), s)});
            }
        }
    }
    Words lines;
    for (const Asked& a : asked) lines.push_back(a.line);
    const std::vector<Words> replies = offered(lines);
    ASSERT_THAT(replies, SizeIs(asked.size()));
    int with_values = 0;
    for (size_t i = 0; i < asked.size(); ++i) {
        const auto& [flag, command, line] = asked[i];
        const std::set<std::string> files = {"PATH", "FILE", "FOLDER", "REPORT"};
        const bool equals = line.ends_with("= ");
        if (flag->is_switch() && equals) {
            EXPECT_THAT(replies[i], ElementsAre("on", "off")) << line;
        } else if (flag->is_switch()) {
            EXPECT_THAT(replies[i], SizeIs(spellings_of(command).size() + 2)) << line;
        } else if (files.contains(std::string(flag->value))) {
            EXPECT_THAT(replies[i], Contains("with space.gguf")) << line;
        } else {
            EXPECT_EQ(replies[i], words_of_value(flag->value)) << line;
            with_values += replies[i].empty() ? 0 : 1;
        }
    }
    EXPECT_GT(with_values, 20);
}

TEST(Completion, OffersOnlyValuesThatTheFlagTakes) {
    for (const Flag& flag : flags()) {
        for (const std::string& word : words_of_value(flag.value)) {
            Options o;
            EXPECT_NO_THROW(flag.set(o, {"--" + std::string(flag.name), word})) << flag.name << " " << word;
        }
    }
    EXPECT_THAT(words_of_value("auto|cpu|cuda[:INDEX]"), ElementsAre("auto", "cpu", "cuda"));
    EXPECT_THAT(words_of_value("COUNT|auto"), ElementsAre("auto"));
    EXPECT_THAT(words_of_value(""), IsEmpty());
}

TEST(Completion, DistinguishesSpellingsThatMeanOtherFlagsElsewhere) {
    EXPECT_THAT(offered_for("trireme bench -o "), ElementsAre("md", "wide", "csv", "json", "jsonl"));
    EXPECT_THAT(offered_for("trireme batch -o "), Not(Contains("md")));
}

// Readline itself: a terminal, keys and a tab. A stand-in for `trireme` prints its arguments.
TEST(Completion, WorksAsTheTabKeyIsPressed) {
    const TempFolder folder;
    write_file(folder / "trireme.bash", bash_completion());
    write_file(folder / "model.gguf", "");
    write_file(folder / "start.bash",
               fmt::format("cd {}; source ./trireme.bash; PS1=; bind 'set enable-bracketed-paste off'\n"
                           "trireme() {{ printf '<%s>' \"$@\"; echo; }}\n",
                           folder.path()));
    const std::string keys = "trireme gener\t-m mod\t--kv-poli\tsnap\t--dtype=bf\t--no-pro\t\nexit\n";
    const ProcessResult typed = run_process(
        {"script", "-qec", fmt::format("bash --noprofile --rcfile {} -i", folder / "start.bash"), "/dev/null"},
        {.input = keys, .timeout_s = 30});
    EXPECT_EQ(typed.status, 0) << typed.err;
    EXPECT_THAT(typed.out, HasSubstr("<generate><-m><model.gguf><--kv-policy><snapkv><--dtype=bf16><--no-progress>"));
}

}  // namespace
}  // namespace trireme::test
