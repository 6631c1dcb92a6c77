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
};

/// The words behind the command. A flag's value is the next word, or stands behind '='.
/// Errors: Exit::kUsage for an unknown flag (the nearest one is named), one of another command, one given twice, one
/// without its value, a word that is no flag, and flags that contradict each other.
CommandLine read_words(Command command, std::span<const std::string> words);

/// Every TRIREME_<NAME> in "NAME=value" lines; an empty one counts as unset. Names that no flag and nothing else
/// in the program has go to `unknown`. Errors: Exit::kConfig for contradictions.
std::vector<Assignment> read_environment(std::span<const std::string> lines, std::vector<std::string>& unknown);

/// `name = value` lines; '#' begins a comment. Errors, with the line: Exit::kConfig (not such a line, an unknown key
/// with the nearest one, a key given twice, contradictions), kNoInput, kPermission.
std::vector<Assignment> read_ini(const std::string& path);

}  // namespace trireme
