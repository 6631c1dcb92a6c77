#pragma once
/// The texts of --help and --version, for main() and the manual page.

#include <optional>
#include <string>
#include <string_view>

#include "launch/flags/options.h"

namespace trireme {

/// Returns the help of a command: its flags, common ones first, each with unit and default. Without a command it is the
/// list of commands. A `keyword` that is not empty selects the flags that mention it, of the command or of all; without
/// a command it also selects commands and documents. Lines have at most `width` characters; examples and the list of
/// commands have up to 80.
std::string help_text(std::optional<Command> command, std::string_view keyword, size_t width = 80);

/// Returns the description that begins --help: "trireme <command>: <sentences>", ending in a line end.
std::string_view about(Command command);
/// Returns example commands, one per line, each after two blanks.
std::string_view examples(Command command);

/// Explains the sources of flags and their precedence.
inline constexpr std::string_view kSources =
    R"(A flag can also be set by an environment variable (--top-k: TRIREME_TOP_K), or
in an INI file (--config FILE) as name = value. The command line overrides the
environment, the environment the file, and the file the default. Sizes may end
in k, m, g (powers of 1000) or K, M, G (powers of 1024).
)";

/// "0.1.0".
std::string_view version_number();
/// The date of the commit that was built: "2026-11-24".
std::string_view commit_date();
/// Version, commit, compiler and linked libraries, one a line.
std::string version_text();

}  // namespace trireme
