#pragma once
/// Command line, environment and INI file to Options. A later source wins: default, file, environment, command line.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// What the words after the program's name ask for.
struct Invocation {
    enum class What { kRun, kHelp, kVersion, kListDevices, kManPage, kCompletion };

    What what = What::kRun;
    std::optional<Command> command;  // always there for kRun; for kHelp where one was named
    std::string help_keyword;        // --help=WORD: only flags that mention it
    Options options;
    std::vector<std::string> warnings;  // of environment variables that resemble a flag's and are none
};

/// `environment` holds "NAME=value". Errors: Exit::kUsage (unknown command or flag, contradictions),
/// kConfig (a value that is not legal, from whatever source; an unknown key in the INI file), kNoInput (no such file).
Invocation parse_command_line(std::span<const std::string> words, std::span<const std::string> environment);

}  // namespace trireme
