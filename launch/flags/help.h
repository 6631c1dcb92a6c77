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

/// What the command does, as its --help begins: "trireme <command>: <sentences>", a line end at the end.
std::string_view about(Command command);

/// Where else flags can stand, and what wins.
inline constexpr std::string_view kSources =
    R"(Every flag can also stand in the environment, as its variable, and in an INI file (--config) as name = value.
The command line wins over the environment, that over the file, and the file over the default.
Sizes may end in k, m, g (powers of 1000) or K, M, G (powers of 1024).
)";

/// "0.1.0".
std::string_view version_number();
/// Of the commit that was built: "2026-11-24".
std::string_view commit_date();
/// Version, commit, compiler, and the libraries that are linked: a line each.
std::string version_text();

}  // namespace trireme
