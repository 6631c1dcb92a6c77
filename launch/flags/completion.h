#pragma once
/// Completion of the command line by the shell (--completion bash), generated from the table of flags.

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Returns a script for bash 4 or later; it does not need the package bash-completion. After `source <(trireme
/// --completion bash)` the tab key completes commands, flags of the command, values from a short list, and file names.
std::string bash_completion();

/// The literal words in a flag's value as --help shows it: "auto|cpu|cuda[:INDEX]" has auto, cpu and cuda. Words in
/// capitals are placeholders.
std::vector<std::string> words_of_value(std::string_view value);

}  // namespace trireme
