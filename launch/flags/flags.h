#pragma once
/// The table of flags. Command line, environment, INI file, --help, manual page and completion are all made from it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "launch/flags/parse.h"

namespace trireme {

/// One flag: its names, its help, and how its value is stored in Options.
struct Flag {
    std::string_view name;                    // canonical, without dashes; an INI file may use any long spelling
    std::vector<std::string_view> spellings;  // on the command line; the canonical one is "--" + name
    unsigned commands;                        // the commands that have it: a set of Command bits
    std::string_view value;                   // how --help names the value; empty: the flag is a switch
    std::string_view help;                    // what it does, with the unit
    /// Stores the value in the options. Errors: Exit::kConfig for an illegal value.
    void (*set)(Options&, const Setting&);
    /// Returns the flag's value as a user would write it, or "" if not set. A fresh Options gives the default.
    std::string (*show)(const Options&);
    std::string_view fallback = "";                // the default that --help shows where show() returns ""
    std::vector<std::string_view> conflicts = {};  // flags that may not be set in the same source
    bool repeatable = false;                       // several values in one source form a list

    bool is_switch() const { return value.empty(); }
    bool belongs_to(Command c) const { return (commands & static_cast<unsigned>(c)) != 0; }
    /// The default as --help shows it.
    std::string shown_default() const;
    /// The flag's environment variable: TRIREME_ and the name in capitals.
    std::string env_name() const;
};

struct FlagGroup {
    std::string_view title;  // heading in --help
    std::vector<Flag> flags;
};

/// The whole table: groups in the order of --help, and the flags of all groups in this order.
std::span<const FlagGroup> flag_groups();
std::span<const Flag> flags();
/// Whether two spellings are equal, with dashes. In long spellings '_' equals '-'.
bool same_spelling(std::string_view a, std::string_view b);
/// Finds a flag by its spelling on the command line: "-m", "--model". Null: the command has none. A short spelling may
/// differ by command: -r is a stop string in generate, and the number of repetitions in bench.
const Flag* find_spelling(std::string_view spelling, Command command);
/// Finds the first flag of any command with this spelling. Null: there is none.
const Flag* find_spelling(std::string_view spelling);
/// Finds a flag by a long spelling without its dashes, as in an INI file. Null: there is none.
const Flag* find_key(std::string_view key);
/// All spellings on the command line of `command`, with dashes.
std::vector<std::string> spellings_of(Command command);
/// All keys of an INI file: the long spellings of all flags, without dashes.
std::vector<std::string> keys();

/// All commands.
std::span<const Command> commands();
/// The command's name on the command line: "generate".
std::string_view name_of(Command command);

}  // namespace trireme
