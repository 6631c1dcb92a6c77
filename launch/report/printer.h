#pragma once
/// What a model says, on stdout as it comes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "launch/report/output.h"

namespace trireme {

/// Prints continuations one behind the other. Text: exactly what was generated. Ids: one array a line. Nothing where
/// stdout is the report's.
class Printer {
  public:
    /// `what` each of `count` continuations is, in the headings that they have as text if `headed`.
    Printer(const Options& o, std::string what, int64_t count, bool headed);

    Printer(const Printer&) = delete;
    Printer& operator=(const Printer&) = delete;
    ~Printer();

    bool reader_gone() const { return out_.closed(); }
    /// The next piece of continuation `number`, which ends with an id of -1 and what text is left.
    void take(int64_t number, int32_t id, std::string_view text);
    /// Ends the line, so that the log begins on a new one on a terminal. Writes to stderr: stdout gets nothing but the
    /// text, and whether it is a terminal cannot be told (mpirun puts a pseudo-terminal in between).
    void end_line();

  private:
    TextOut out_;
    std::string what_;
    int64_t count_, number_ = -1;
    bool ids_asked_, silent_, headed_;
    bool ended_ = false;  // end_line() has been called since the last text
    std::vector<int32_t> ids_;
};

}  // namespace trireme
