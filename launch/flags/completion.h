#pragma once
/// Completion of the command line, made from the table of flags.

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A script for bash (4 or later; the package bash-completion is not needed): after `source <(trireme --completion
/// bash)` the tab key completes commands, the flags of the command at hand, the values of flags that have a few, and
/// file names behind flags that want a file.
std::string bash_completion();

/// The words among what --help calls a flag's value: "auto|cpu|cuda[:INDEX]" has auto, cpu and cuda; what is in
/// capitals stands for something.
std::vector<std::string> words_of_value(std::string_view value);

}  // namespace trireme
