#pragma once
/// Runs a program as a user would.

#include <functional>
#include <string>
#include <vector>

namespace trireme::test {

struct ProcessResult {
    int status = -1;  // exit code; 128 + n if signal n ended it
    std::string out, err;
};

struct ProcessOptions {
    std::string input = {};                     // its stdin
    std::vector<std::string> environment = {};  // "NAME=value", besides what the test itself was given
    double timeout_s = 120;                     // the program is killed after this time
    int signal_at_output = 0;                   // a signal, sent once as soon as something appears on stdout
    std::string signal_at_error = {};           // if set, it is sent as soon as stderr has this text
    std::string signal_to = {};                 // if set, a file with the id of the process that receives it
};

/// argv[0] is looked up in PATH unless it holds a slash. Variables named TRIREME_* are not passed on.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// Like run_process(), for argv that begins with mpirun. mpirun may crash when it ends, after its ranks have ended:
/// Open MPI 4.1 on PMIx 4.2 in PMIx_server_finalize (open-mpi/ompi#13650 reports similar crashes). Its exit code then
/// does not depend on the ranks, and the command is run again, at most twice.
ProcessResult run_mpirun(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);

/// A temporary folder that exists for the length of a test.
class TempFolder {
  public:
    TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder();

    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }
    /// The names of its entries, ascending.
    std::vector<std::string> names() const;

  private:
    std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

}  // namespace trireme::test
