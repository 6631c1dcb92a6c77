#pragma once
/// The three places where flags are set, each read into the same form.

#include <span>
#include <string>
#include <vector>

#include "launch/flags/flags.h"

namespace trireme {

struct Assignment {
    const Flag* flag;
    Setting setting;
};

struct CommandLine {
    std::vector<Assignment> assignments;
    bool help = false;
    std::string help_keyword;
    std::vector<std::string> warnings;  // foreign flags that are ignored
};

/// The words behind the command. A flag's value is the next word, or stands behind '='; the last of several wins.
/// Errors: Exit::kUsage for unknown flags and those of other commands, all at once (the nearest one is named), one
/// without its value, a word that is no flag, and flags that contradict each other.
CommandLine read_words(Command command, std::span<const std::string> words);

/// Every flag's variable in "NAME=value" lines; an empty one counts as unset. Errors: Exit::kConfig for contradictions.
std::vector<Assignment> read_environment(std::span<const std::string> lines);

/// A warning for each variable that is probably meant for this program, but that neither it nor its scripts read: its
/// name begins with TRIREME, or differs from a known one by at most two letters.
std::vector<std::string> misspelt_variables(std::span<const std::string> lines);

/// The file that --config names: it itself, or a shipped one by its name, with or without ".ini".
std::string find_config(const std::string& name);

/// `name = value` lines; '#' begins a comment. Errors, with the line: Exit::kConfig (not such a line, an unknown key
/// with the nearest one, a key given twice, contradictions), kNoInput, kPermission.
std::vector<Assignment> read_ini(const std::string& path);

}  // namespace trireme
