#include "launch/flags/completion.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "launch/flags/flags.h"
#include "runtime/error.h"

namespace trireme {
namespace {

// $flags: words that may follow here; $values: values of the flag before; $files: set if that flag takes a file.
constexpr std::string_view kBegin = R"(# Completion of trireme for bash, made by: trireme --completion bash
_trireme() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} equals='' flags='' values='' files=''
    COMPREPLY=()
    # Readline takes '=' for a word of its own: --flag=value comes as three words.
    if [[ $current == = ]]; then
        current='' equals=1
    elif [[ $before == = && $COMP_CWORD -ge 2 ]]; then
        before=${COMP_WORDS[COMP_CWORD-2]} equals=1
    fi
)";
constexpr std::string_view kEnd = R"(    if [[ $files ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -W "${values:-$flags}" -- "$current")
    fi
}
complete -F _trireme trireme
)";

std::string joined(const std::vector<std::string>& words, std::string_view between) {
    std::string all;
    for (const std::string& word : words) all += (all.empty() ? "" : std::string(between)) + word;
    return all;
}

bool wants_file(const Flag& flag) {
    return std::ranges::any_of(std::array{"PATH", "FILE", "FOLDER", "REPORT"},
                               [&](const char* name) { return flag.value == name; });
}

/// The line of a `case` that lists what may follow a flag.
std::string behind(const Flag& flag) {
    const std::string spellings = joined({flag.spellings.begin(), flag.spellings.end()}, "|");
    const std::string words = joined(words_of_value(flag.value), " ");
    // After a switch comes the next flag; only `--switch=` takes a value.
    if (flag.is_switch()) return fmt::format("                {}) [[ $equals ]] && values='on off' ;;\n", spellings);
    if (wants_file(flag)) return fmt::format("                {}) flags='' files=1 ;;\n", spellings);
    return fmt::format("                {}) flags='' values='{}' ;;\n", spellings, words);
}

std::string of_command(Command command) {
    std::vector<std::string> all = spellings_of(command);
    all.insert(all.end(), {"--help", "-h"});
    std::string text = fmt::format("        {})\n            flags='{}'\n            case $before in\n",
                                   name_of(command), joined(all, " "));
    for (const Flag& flag : flags()) {
        if (flag.belongs_to(command)) text += behind(flag);
    }
    return text + "            esac ;;\n";
}

}  // namespace

std::vector<std::string> words_of_value(std::string_view value) {
    std::vector<std::string> words;
    for (size_t from = 0; from <= value.size();) {
        const size_t end = std::min(value.find('|', from), value.size());
        const std::string_view part = value.substr(from, end - from);
        const std::string_view word = part.substr(0, part.find('['));
        const bool stands_for_something =
            std::ranges::any_of(word, [](unsigned char c) { return std::isupper(c) != 0; });
        if (!word.empty() && !stands_for_something) words.emplace_back(word);
        from = end + 1;
    }
    return words;
}

std::string bash_completion() {
    std::vector<std::string> first;
    for (const Command c : commands()) first.emplace_back(name_of(c));
    first.insert(first.end(), {"--help", "--version", "--list-devices", "--man", "--completion"});
    std::string text(kBegin);
    text += fmt::format(
        "    if (( COMP_CWORD == 1 )); then\n        flags='{}'\n    else\n        case ${{COMP_WORDS[1]}} in\n",
        joined(first, " "));
    text += "        --completion) flags=bash ;;\n";
    for (const Command c : commands()) text += of_command(c);
    return text + "        esac\n    fi\n" + std::string(kEnd);
}

}  // namespace trireme
