#pragma once
/// run_program(): the whole program, from its words to its exit status.

#include <string>
#include <vector>

namespace trireme {

/// Runs the command that `words` name, without the program's own name, on this rank: reads descriptor 0, writes
/// descriptors 1 and 2, and returns the exit status. `environment`: "NAME=value", of which TRIREME_* are flags. It also
/// reads this process's environment for the launcher's variables and env(). Binds the calling thread to its cores,
/// ignores SIGPIPE and SIGXFSZ, and leaves SIGINT and SIGTERM with their default actions. A process may call it several
/// times, one after the other, if it is the only rank; run_report() replaces the process.
int run_program(const std::vector<std::string>& words, const std::vector<std::string>& environment);

}  // namespace trireme
