#pragma once
/// The Python scripts of the installed tree, in share/trireme, and the interpreter that runs them.

#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Returns the words that start a script: the interpreter (TRIREME_PYTHON, else python3), its flags, the script's path.
/// `script`: "report/report.py". Errors: Exit::kUnavailable if the tree does not have it.
std::vector<std::string> python_command(std::string_view script);

/// Replaces this process by the script (execvp). Returns only by throwing. `who` begins the message. Errors:
/// Exit::kUnavailable without the interpreter.
[[noreturn]] void become_script(std::vector<std::string> words, std::string_view who);

/// The message for an interpreter that cannot be started. `error`: errno.
std::string no_python(const std::string& interpreter, int error);

}  // namespace trireme
