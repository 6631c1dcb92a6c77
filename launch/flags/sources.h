#pragma once
/// Readers of the three sources of flags: command line, environment and INI file.

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

/// Reads the words after the command. A flag's value is the next word or follows '='. The last of several values wins.
/// Errors: Exit::kUsage for unknown flags and those of other commands (one message for all, with hints), a missing
/// value, a word that is no flag, and flags that contradict each other.
CommandLine read_words(Command command, std::span<const std::string> words);

/// Reads every flag's variable from "NAME=value" lines; an empty one counts as unset. Errors: Exit::kConfig if a
/// variable occurs twice or flags contradict each other.
std::vector<Assignment> read_environment(std::span<const std::string> lines);

/// Returns a warning for each variable that is probably meant for this program, but that neither it nor its scripts
/// read. Such a name begins with TRIREME, or differs from a known one by at most two letters.
std::vector<std::string> misspelt_variables(std::span<const std::string> lines);

/// The path of the file that --config names: a path, or the name of a shipped file with or without ".ini".
std::string find_config(const std::string& name);

/// Reads `name = value` lines; '#' begins a comment. Errors, with the line: Exit::kConfig (a malformed line, an unknown
/// key, a key given twice, contradictions), kNoInput, kPermission.
std::vector<Assignment> read_ini(const std::string& path);

}  // namespace trireme
