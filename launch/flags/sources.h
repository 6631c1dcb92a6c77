#pragma once
/// Readers of the three sources of flags: command line, environment and INI file.

#include <span>
#include <string>
#include <vector>

#include "launch/flags/flags.h"

namespace trireme {

/// A flag and its value in one source. The value is not parsed yet: Flag::set does that.
struct Assignment {
    const Flag* flag;
    Setting setting;
};

/// The words after the command.
struct CommandLine {
    std::vector<Assignment> assignments;
    bool help = false;                  // --help was given
    std::string help_keyword;           // of --help=WORD; else empty
    std::vector<std::string> warnings;  // foreign flags that are ignored
};

/// Reads the words after the command. A flag's value is the next word or follows '='. The last of several values wins,
/// unless the flag is repeatable. Errors: Exit::kUsage for unknown flags and those of other commands (one message for
/// all, with hints; none with --help), a missing value, a word that is no flag, and flags that contradict each other.
CommandLine read_words(Command command, std::span<const std::string> words);

/// Reads the variables of flags of all commands from "NAME=value" lines; an empty one counts as unset. Errors:
/// Exit::kConfig if a variable occurs twice or flags contradict each other.
std::vector<Assignment> read_environment(std::span<const std::string> lines);

/// Returns a warning for each variable that is probably meant for this program, but that neither it nor its scripts
/// read. Such a name begins with TRIREME, or differs from a known one by at most two letters.
std::vector<std::string> misspelt_variables(std::span<const std::string> lines);

/// Returns the path of the file that --config names: a path, or the name of a shipped file with or without ".ini".
/// Errors: Exit::kNoInput if it is neither.
std::string find_config(const std::string& name);

/// Reads `name = value` lines, of flags of all commands; '#' begins a comment. A relative path to an input is resolved
/// against the INI file's folder if it exists there. Errors, with the line: Exit::kConfig (a malformed line, an unknown
/// key, a key given twice, contradictions), kNoInput, kPermission.
std::vector<Assignment> read_ini(const std::string& path);

}  // namespace trireme
