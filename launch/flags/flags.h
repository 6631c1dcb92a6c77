#pragma once
/// The table of flags. Command line, environment, INI file, --help, manual page and completion are all made from it.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "launch/flags/parse.h"

namespace trireme {

struct Flag {
    std::string_view name;                    // canonical, without dashes; the key in an INI file
    std::vector<std::string_view> spellings;  // on the command line, shortest first; the canonical one is "--" + name
    unsigned commands;                        // a set of Command bits
    std::string_view value;                   // how --help names the value; empty: the flag is a switch
    std::string_view help;                    // what it does, with the unit
    void (*set)(Options&, const Setting&);
    /// Returns the flag's value as a user would write it, or "" if not set. A fresh Options gives the default.
    std::string (*show)(const Options&);
    std::string_view fallback = "";                // the default that --help shows where show() returns ""
    std::vector<std::string_view> conflicts = {};  // flags that may not be set in the same source
    bool repeatable = false;

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

std::span<const FlagGroup> flag_groups();
std::span<const Flag> flags();
/// Whether two spellings name one flag. In long spellings '_' equals '-'.
bool same_spelling(std::string_view a, std::string_view b);
/// Finds a flag by its spelling on the command line: "-m", "--model". Null: the command has none. A short spelling may
/// differ by command: -r is a stop string in generate, and the number of repetitions in bench.
const Flag* find_spelling(std::string_view spelling, Command command);
/// Finds the first flag of any command with this spelling. Null: there is none.
const Flag* find_spelling(std::string_view spelling);
/// Finds a flag by a long spelling without its dashes, as in an INI file. Null: there is none.
const Flag* find_key(std::string_view key);
/// All spellings on the command line of `command`, and all keys of an INI file.
std::vector<std::string> spellings_of(Command command);
std::vector<std::string> keys();

std::span<const Command> commands();
std::string_view name_of(Command command);

}  // namespace trireme
