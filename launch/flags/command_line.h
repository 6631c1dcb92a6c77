#pragma once
/// Parser of the sources of Options. Later sources win: default, INI file, environment, command line.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// The parsed command line.
struct Invocation {
    enum class What { kRun, kHelp, kVersion, kListDevices, kManPage, kCompletion };

    What what = What::kRun;
    std::optional<Command> command;  // always set for kRun; for kHelp only if one was named
    std::string help_keyword;        // --help=WORD: only flags that mention WORD
    Options options;
    std::vector<std::string> warnings;  // about variables that resemble a flag's variable, and about ignored flags
};

/// `environment` holds "NAME=value". Errors: Exit::kUsage (unknown command or flag, contradictions),
/// kConfig (an illegal value from any source, or an unknown key in the INI file), kNoInput (no such file).
Invocation parse_command_line(std::span<const std::string> words, std::span<const std::string> environment);

}  // namespace trireme
