#pragma once
/// A program run as a user would run it.

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
    double timeout_s = 120;                     // then it is killed
    int signal_at_output = 0;                   // sent once, as soon as something appears on stdout
    std::string signal_at_error = {};           // the same, but as soon as stderr has this text
    std::string signal_to = {};                 // and to the process whose number this file holds
};

/// argv[0] is looked up in PATH unless it holds a slash. Variables named TRIREME_* are not passed on.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// The same for argv that begins with mpirun, which may crash as it leaves, after its ranks have: Open MPI 4.1 on
/// PMIx 4.2 in PMIx_server_finalize (open-mpi/ompi#13650 tells of more such). Its exit code then says nothing of the
/// ranks, and all is run again, twice at most.
ProcessResult run_mpirun(const std::vector<std::string>& argv, const ProcessOptions& options = {});

/// The lines of a text, without their ends.
std::vector<std::string> lines_of(const std::string& text);

/// A folder of its own for the length of a test.
class TempFolder {
  public:
    TempFolder();
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder();

    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }
    /// Names of what it holds, ascending.
    std::vector<std::string> names() const;

  private:
    std::string path_;
};

std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& bytes);

}  // namespace trireme::test
