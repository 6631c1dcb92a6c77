#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "launch/commands/commands.h"
#include "launch/record/record_file.h"
#include "runtime/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// The script in share/trireme/report of the program's tree, installed or built.
fs::path script() {
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    const fs::path path = program.parent_path().parent_path() / "share/trireme/report/report.py";
    require(!error && fs::exists(path, error), Exit::kUnavailable,
            "{} is not there: install the program with its share folder, or build it again", path.string());
    return path;
}

}  // namespace

void run_report(const Options& o) {
    // h5py trusts its input, so the digests of each file are verified first.
    for (const std::string& file : o.records) open_record(file);
    const char* const named = std::getenv("TRIREME_PYTHON");
    const std::string python = named != nullptr && *named != '\0' ? named : "python3";
    std::vector<std::string> words = {python, "-B", script().string(), "-o", o.output_path, "--"};
    words.insert(words.end(), o.records.begin(), o.records.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execvp(python.c_str(), argv.data());
    fail(Exit::kUnavailable,
         "trireme report: {} cannot be started: {}; install Python 3 (apt-get install python3), or name one in "
         "TRIREME_PYTHON",
         python, std::generic_category().message(errno));
}

}  // namespace trireme
