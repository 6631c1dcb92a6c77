#include "launch/run/python_script.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "runtime/error.h"

namespace trireme {

namespace fs = std::filesystem;

std::vector<std::string> python_command(std::string_view script) {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    const fs::path path = program.parent_path().parent_path() / "share/trireme" / script;
    require(!error && fs::exists(path, error), Exit::kUnavailable,
            "{} is not there: install the program with its share folder, or build it again", path.string());
    const char* const named = std::getenv("TRIREME_PYTHON");
    return {named != nullptr && *named != '\0' ? named : "python3", "-B", path.string()};
}

void become_script(std::vector<std::string> words, std::string_view who) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    fail(Exit::kUnavailable, "{}: {}", who, no_python(words[0], errno));
}

std::string no_python(const std::string& interpreter, int error) {
    return fmt::format(
        "{} cannot be started: {}; install Python 3 (apt-get install python3), or name one in TRIREME_PYTHON",
        interpreter, std::generic_category().message(error));
}

}  // namespace trireme
