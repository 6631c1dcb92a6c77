#pragma once
/// The one table of flags: command line, environment, INI file and --help are all read from it.

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
    unsigned commands;                        // of Command
    std::string_view value;                   // how --help calls the value; empty: a switch
    std::string_view help;                    // what it does, with the unit
    void (*set)(Options&, const Setting&);
    /// The flag's value in these Options, as a user would write it; empty: not set. For a fresh Options: the default.
    std::string (*show)(const Options&);
    std::string_view fallback = "";                // what --help says where show() of the default is empty
    std::vector<std::string_view> conflicts = {};  // flags that may not be set in the same source
    bool repeatable = false;

    bool is_switch() const { return value.empty(); }
    bool belongs_to(Command c) const { return (commands & static_cast<unsigned>(c)) != 0; }
    /// TRIREME_ and the name in capitals.
    std::string env_name() const;
};

struct FlagGroup {
    std::string_view title;  // heading in --help
    std::vector<Flag> flags;
};

std::span<const FlagGroup> flag_groups();
std::span<const Flag> flags();
/// Whether two spellings are one flag: in long ones, '_' equals '-'.
bool same_spelling(std::string_view a, std::string_view b);
/// By the spelling on the command line: "-m", "--model". Null if there is none. What a short spelling means is
/// the command's affair: -r is a stop string of generate's, and the repetitions of bench.
const Flag* find_spelling(std::string_view spelling, Command command);
/// The same whatever the command: the first of them.
const Flag* find_spelling(std::string_view spelling);
/// By a long spelling without its dashes, as in an INI file. Null if there is none.
const Flag* find_key(std::string_view key);
/// What may stand on the command line of `command`, and what may stand in an INI file.
std::vector<std::string> spellings_of(Command command);
std::vector<std::string> keys();

std::span<const Command> commands();
std::string_view name_of(Command command);

}  // namespace trireme
