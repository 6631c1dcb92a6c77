#pragma once
/// LineProcess: a child process that answers each line on its stdin with one line on its stdout. Its stderr is kept for
/// messages.

#include <chrono>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace trireme {

class LineProcess {
  public:
    /// Starts `words`: a program, searched for in PATH, and its arguments. Errors: Exit::kUnavailable if it cannot be
    /// started (no_python()), kOs.
    explicit LineProcess(std::vector<std::string> words);
    /// Kills the process.
    ~LineProcess();
    LineProcess(const LineProcess&) = delete;
    LineProcess& operator=(const LineProcess&) = delete;

    /// What became of a line.
    enum class End { kAnswered, kEnded, kTimeout };
    struct Answer {
        End end = End::kAnswered;
        std::string text;  // the line without its end; kEnded: the last line of stderr
    };
    /// Sends a line and waits for the answer, at most so long. After another end than kAnswered, the process is gone.
    Answer ask(std::string line, std::chrono::milliseconds most);

  private:
    std::string last_words();
    void kill();

    pid_t child_ = -1;
    int talk_ = -1, errors_ = -1;  // a socket: stdin and stdout of the child; its stderr
    std::string read_;             // bytes after the last answer
};

}  // namespace trireme
