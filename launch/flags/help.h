#pragma once
/// What --help and --version print.

#include <optional>
#include <string>
#include <string_view>

#include "launch/flags/options.h"

namespace trireme {

/// Without a command: what there is. With one: its flags, each with default, unit and variable; with a keyword only
/// those that mention it (without a command: of all commands).
std::string help_text(std::optional<Command> command, std::string_view keyword);

/// Version, commit, compiler, and the libraries that are linked: a line each.
std::string version_text();

}  // namespace trireme
