#pragma once
/// Parser of flags: reads the command and its Options from all sources. Later sources win: default, INI file,
/// environment, command line. Called once by main(), on every rank.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// What the user has requested, with all flags.
struct Invocation {
    enum class What { kRun, kHelp, kVersion, kListDevices, kManPage, kCompletion };

    What what = What::kRun;          // kRun: runs the command; others print a text
    std::optional<Command> command;  // always set for kRun; for kHelp only if one was named
    std::string help_keyword;        // --help=WORD: only flags that mention WORD
    Options options;
    std::vector<std::string> warnings;  // about variables that resemble a flag's variable, and about ignored flags
};

/// `words`: the command line without the program's name; `environment`: lines "NAME=value". Errors: Exit::kUsage
/// (unknown command or flag, contradictions, a required flag is missing), kConfig (an illegal value from any source, or
/// an unknown key in the INI file), kNoInput (no such INI file).
Invocation parse_command_line(std::span<const std::string> words, std::span<const std::string> environment);

}  // namespace trireme
