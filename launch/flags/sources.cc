#include "launch/flags/sources.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <utility>

#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/parsers.hpp>
#include <fmt/ranges.h>

#include "launch/flags/foreign_flags.h"
#include "launch/flags/nearest.h"
#include "launch/flags/parse.h"
#include "launch/flags/text_file.h"
#include "runtime/error.h"

namespace trireme {
namespace {

namespace po = boost::program_options;
namespace fs = std::filesystem;

// Boost splits sources into names and texts. It must not parse values: it accepts -1 for unsigned numbers, and nan.
po::options_description description() {
    po::options_description all;
    for (const Flag& flag : flags()) all.add_options()(std::string(flag.name).c_str(), po::value<std::string>(), "");
    return all;
}

/// A hint for a user who wrote `wrong` (`spelling` on the command line): the replacement of another program's flag,
/// else the nearest of `names`, else `otherwise`.
std::string did_you_mean(std::string_view spelling, std::string_view wrong, std::span<const std::string> names,
                         std::string_view otherwise) {
    if (const ForeignFlags* foreign = find_foreign(spelling)) return std::string(foreign->answer);
    const bool one_letter = spelling.starts_with("-") && !spelling.starts_with("--");  // all would be near
    const std::string best = one_letter ? "" : nearest(wrong, names);
    return best.empty() ? std::string(otherwise) : fmt::format("the nearest is {}", best);
}

enum class Again { kLastWins, kRefused };  // for a flag that is not repeatable and occurs twice in a source

// Appends the assignment. Fails with `code` if the flag conflicts with an earlier one.
void assign(std::vector<Assignment>& all, const Flag& flag, Setting setting, Exit code, Again again) {
    for (const Assignment& a : all) {
        if (a.flag == &flag && !flag.repeatable && again == Again::kRefused) {
            fail(code, "{}: given twice ({} '{}' before)", setting.where, a.setting.where, a.setting.text);
        }
        if (a.flag == &flag) setting.first = false;
        if (std::find(flag.conflicts.begin(), flag.conflicts.end(), a.flag->name) != flag.conflicts.end()) {
            fail(code, "{}: contradicts {}; give one of them", setting.where, a.setting.where);
        }
    }
    if (!flag.repeatable) std::erase_if(all, [&](const Assignment& a) { return a.flag == &flag; });
    all.push_back({&flag, std::move(setting)});
}

/// The name and the value of a line "NAME=value".
std::pair<std::string, std::string> variable(const std::string& line) {
    const size_t equals = std::min(line.find('='), line.size());
    return {line.substr(0, equals), line.substr(std::min(equals + 1, line.size()))};
}

constexpr std::string_view kHelpName = "help", kNobodys = "unknown";

/// Flags on a command line that this command does not have.
struct Unknown {
    std::vector<std::string> errors, ignored;  // lines
};

/// Whether the word after an unknown flag is its value: it is, unless it looks like a flag.
bool is_value(const std::string& word) {
    return word.empty() || word[0] != '-' || parse_real(word).has_value();
}

/// Removes the value of a foreign flag from the front of `words`.
void drop_value(ForeignFlags::Harmless what, std::vector<std::string>& words) {
    using Harmless = ForeignFlags::Harmless;
    if (words.empty() || what == Harmless::kSwitch || !is_value(words.front())) return;
    constexpr std::array<std::string_view, 5> kOnOff = {"on", "off", "auto", "0", "1"};
    if (what == Harmless::kOnOff && std::ranges::find(kOnOff, words.front()) == kOnOff.end()) return;
    words.erase(words.begin());
}

/// Notes a flag that no command has: as a warning if it can be ignored, else as an error.
void note_unknown(const std::string& spelling, bool has_value, Command command, std::vector<std::string>& words,
                  Unknown& unknown) {
    const ForeignFlags* foreign = find_foreign(spelling);
    if (foreign != nullptr && foreign->harmless != ForeignFlags::Harmless::kNo) {
        if (!has_value) drop_value(foreign->harmless, words);
        unknown.ignored.push_back(fmt::format("{}: ignored: {}", spelling, foreign->answer));
        return;
    }
    if (!has_value) drop_value(ForeignFlags::Harmless::kValue, words);
    const std::string hint =
        did_you_mean(spelling, spelling, spellings_of(command), fmt::format("see trireme {} --help", name_of(command)));
    // The answer for a foreign flag is complete by itself.
    unknown.errors.push_back(foreign == nullptr ? fmt::format("{}: unknown flag; {}", spelling, hint)
                                                : fmt::format("{}: {}", spelling, hint));
}

// Removes one flag and its value from the front of `words`. Boost calls it until none are left.
std::vector<po::option> take_flag(Command command, std::vector<std::string>& words, Unknown& unknown) {
    const std::string word = words.front();
    if (command == Command::kReport && !word.empty() && word[0] != '-') {
        po::option file;
        file.string_key = "records";
        file.value = {word};
        file.original_tokens = {"--records"};
        words.erase(words.begin());
        return {file};
    }
    if (word.size() < 2 || word[0] != '-') {
        fail(Exit::kUsage, "'{}': a word without a flag; trireme {} --help lists the flags", word, name_of(command));
    }
    const size_t equals = word.find('=');
    const std::string spelling = word.substr(0, equals);
    words.erase(words.begin());
    po::option taken;
    if (spelling == "--help" || spelling == "-h") {
        taken.string_key = kHelpName;
        taken.value = {equals == std::string::npos ? "" : word.substr(equals + 1)};
        return {taken};
    }
    const Flag* flag = find_spelling(spelling, command);
    const Flag* elsewhere = flag == nullptr ? find_spelling(spelling) : nullptr;
    if (flag == nullptr) {
        if (elsewhere == nullptr) {
            note_unknown(spelling, equals != std::string::npos, command, words, unknown);
        } else {
            if (equals == std::string::npos && !elsewhere->is_switch()) {
                drop_value(ForeignFlags::Harmless::kValue, words);
            }
            std::vector<std::string_view> owners;
            for (const Command c : commands()) {
                if (elsewhere->belongs_to(c)) owners.push_back(name_of(c));
            }
            unknown.errors.push_back(fmt::format("{}: not a flag of trireme {}, but of {}", spelling, name_of(command),
                                                 fmt::join(owners, ", ")));
        }
        taken.string_key = kNobodys;
        taken.value = {""};
        return {taken};
    }
    taken.string_key = flag->name;
    if (equals != std::string::npos) {
        taken.value = {word.substr(equals + 1)};
    } else if (flag->is_switch()) {
        taken.value = {"on"};
    } else {
        if (words.empty()) fail(Exit::kUsage, "{}: no value follows, want {}", spelling, flag->value);
        const std::string& next = words.front();
        if (find_spelling(next.substr(0, next.find('='))) != nullptr) {
            fail(Exit::kUsage, "{}: no value, but the flag {} follows; if that is the value, write {}={}", spelling,
                 next, spelling, next);
        }
        taken.value = {next};
        words.erase(words.begin());
    }
    taken.original_tokens = {spelling};
    return {taken};
}

/// A value in an INI file of `folder`. A relative path to read is resolved against `folder` if it exists there.
std::string beside(const fs::path& folder, const Flag& flag, const std::string& value) {
    constexpr std::array kWritten = {"output-path", "record",  "report-json", "dump-logits",
                                     "trace",       "kv-dump", "save-kv"};
    const bool path = (flag.value == "PATH" || flag.value == "FILE") &&
                      std::find(kWritten.begin(), kWritten.end(), flag.name) == kWritten.end();
    std::error_code error;
    if (!path || value.empty() || value == "-" || folder.empty() || fs::path(value).is_absolute()) return value;
    return fs::exists(folder / value, error) ? (folder / value).string() : value;
}

}  // namespace

CommandLine read_words(Command command, std::span<const std::string> words) {
    po::options_description all = description();
    for (const std::string_view name : {kHelpName, kNobodys}) {
        all.add_options()(std::string(name).c_str(), po::value<std::string>(), "");
    }
    Unknown unknown;
    const po::parsed_options parsed =
        po::command_line_parser(std::vector<std::string>(words.begin(), words.end()))
            .options(all)
            .style(po::command_line_style::default_style & ~po::command_line_style::allow_guessing)
            .extra_style_parser([&](std::vector<std::string>& rest) { return take_flag(command, rest, unknown); })
            .run();
    CommandLine line;
    line.warnings = std::move(unknown.ignored);
    for (const po::option& o : parsed.options) {
        if (o.string_key == kHelpName) {
            line.help = true;
            line.help_keyword = o.value.front();
        }
        if (o.string_key == kHelpName || o.string_key == kNobodys) continue;
        assign(line.assignments, *find_key(o.string_key), {o.original_tokens.front(), o.value.front()}, Exit::kUsage,
               Again::kLastWins);
    }
    if (!line.help && !unknown.errors.empty()) fail(Exit::kUsage, "{}", fmt::join(unknown.errors, "; "));
    return line;
}

std::vector<Assignment> read_environment(std::span<const std::string> lines) {
    std::vector<Assignment> all;
    for (const std::string& line : lines) {
        const auto [name, value] = variable(line);
        for (const Flag& flag : flags()) {
            if (!value.empty() && name == flag.env_name())
                assign(all, flag, {name, value}, Exit::kConfig, Again::kRefused);
        }
    }
    return all;
}

std::vector<std::string> misspelt_variables(std::span<const std::string> lines) {
    // Read by runtime/env, by scripts, by runtime/module, and by tests.
    std::vector<std::string> known = {"TRIREME_TIMEOUT_S", "TRIREME_LOG", "TRIREME_CACHE", "TRIREME_CUDA_LIBS",
                                      "TRIREME_DEMO_MODEL", "TRIREME_LLAMA_VENV", "TRIREME_TEST_DATA", "TRIREME_MUTANT",
                                      "TRIREME_PYTHON", "TRIREME_SHM_SUMS", "TRIREME_PDL",
                                      // Read by scripts in launch/slurm and tests.
                                      "TRIREME", "TRIREME_SLURM", "TRIREME_SLURM_MODES", "TRIREME_LAUNCHER",
                                      "TRIREME_MOST_RESTARTS", "TRIREME_SOFTWARE_GPU", "TRIREME_LONG_TEXT"};
    for (const Flag& flag : flags()) known.push_back(flag.env_name());
    constexpr size_t kSlips = 2;
    std::vector<std::string> warnings;
    for (const std::string& line : lines) {
        const std::string name = variable(line).first;
        if (std::find(known.begin(), known.end(), name) != known.end()) continue;
        std::string meant = name;
        for (char& c : meant) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        const bool ours = meant.starts_with("TRIREME");
        const std::string best = nearest(meant, known, ours ? meant.size() : kSlips);
        if (!ours && best.empty()) continue;
        warnings.push_back(fmt::format("{}: no flag is called so; {}", name,
                                       best.empty() ? "ignored" : fmt::format("the nearest is {}", best)));
    }
    return warnings;
}

std::string find_config(const std::string& name) {
    std::error_code error;
    if (name == "-" || fs::exists(name, error) || name.find('/') != std::string::npos) return name;
    // Installed and built trees both have bin/ and share/trireme/configs.
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    const fs::path shipped = program.parent_path().parent_path() / "share/trireme/configs";
    for (const std::string& file : {name, name + ".ini"}) {
        if (fs::is_regular_file(shipped / file, error)) return (shipped / file).string();
    }
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(shipped, error)) {
        if (entry.path().extension() == ".ini") names.push_back(entry.path().stem().string());
    }
    std::ranges::sort(names);
    require(names.empty(), Exit::kNoInput, "--config {}: no such file, and none of the shipped ones ({})", name,
            fmt::join(names, ", "));
    return name;
}

std::vector<Assignment> read_ini(const std::string& path) {
    const po::options_description all_flags = description();
    const fs::path folder = fs::path(path).parent_path();
    std::vector<Assignment> all;
    std::string bytes = read_text_file(path, size_t{1} << 20);
    if (bytes.starts_with("\xef\xbb\xbf")) bytes.erase(0, 3);  // some editors' mark of UTF-8
    std::istringstream text(bytes);
    std::string line;
    for (int64_t number = 1; std::getline(text, line); ++number) {
        const std::string where = fmt::format("{}:{}", path, number);
        require(line.find('\0') == std::string::npos, Exit::kConfig,
                "{}: a NUL byte: this is no plain text; save it as UTF-8", where);
        if (!line.empty() && line.back() == '\r') line.pop_back();
        const size_t hash = line.find('#');
        if (hash != std::string::npos && line.find_first_not_of(" \t") != hash && line[hash - 1] != ' ' &&
            line[hash - 1] != '\t') {
            fail(Exit::kConfig, "{}: '#' after a blank begins a comment; a value cannot contain it", where);
        }
        const size_t begin = line.find_first_not_of(" \t");
        if (begin == std::string::npos || line[begin] == '#') continue;
        if (line[begin] == '[' || line.find('=') == std::string::npos) {
            fail(Exit::kConfig, "{}: '{}': want name = value; there are no sections", where, line);
        }
        std::istringstream one(line);
        for (const po::option& o : po::parse_config_file(one, all_flags, /*allow_unregistered=*/true).options) {
            const Flag* flag = find_key(o.string_key);
            if (flag == nullptr) {
                fail(Exit::kConfig, "{}: {}: unknown key; {}", where, o.string_key,
                     did_you_mean("--" + o.string_key, o.string_key, keys(), "trireme generate --help lists them"));
            }
            if (flag->name == "config") fail(Exit::kConfig, "{}: config: files do not name further files", where);
            assign(all, *flag, {fmt::format("{}: {}", where, o.string_key), beside(folder, *flag, o.value.front())},
                   Exit::kConfig, Again::kRefused);
        }
    }
    return all;
}

}  // namespace trireme
