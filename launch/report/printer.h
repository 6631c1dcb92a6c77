#pragma once
/// Printer of generated text on stdout, as it is generated. generate uses it on rank 0.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "launch/report/output.h"

namespace trireme {

/// Prints continuations one after the other. With --print text: exactly the generated text. With --print ids: one array
/// per line. Prints nothing if the report goes to stdout. While it exists, it ends unfinished lines before log lines on
/// a terminal; there may be one Printer at a time.
class Printer {
  public:
    /// `count`: the number of continuations. With `headed` each text has a heading, "=== sample 1 of 4 ===", in which
    /// `what` is "sample".
    Printer(const Options& o, std::string what, int64_t count, bool headed);

    Printer(const Printer&) = delete;
    Printer& operator=(const Printer&) = delete;
    ~Printer();

    /// Whether the reader of stdout has closed it.
    bool reader_gone() const { return out_.closed(); }
    /// Prints the next token of continuation `number`, from 0. A negative `id` ends it; `text` is then what was held
    /// back (OnToken).
    void take(int64_t number, int32_t id, std::string_view text);
    /// Ends the line, so that the log starts on a new line of a terminal. Writes to stderr: stdout gets only the text,
    /// and whether it is a terminal is not known (mpirun puts a pseudo-terminal in between).
    void end_line();

  private:
    TextOut out_;
    std::string what_;
    int64_t count_, number_ = -1;  // number_: the last continuation; -1: none
    bool ids_asked_, silent_, headed_;
    bool ended_ = false;  // end_line() has been called since the last text
    std::vector<int32_t> ids_;
};

}  // namespace trireme
