#pragma once
/// Printer of generated text on stdout, as it is generated.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"
#include "launch/report/output.h"

namespace trireme {

/// Prints continuations one after the other. Text: exactly what was generated. Ids: one array a line. Prints nothing if
/// the report goes to stdout.
class Printer {
  public:
    /// `what` names each of `count` continuations in the headings that texts have if `headed`.
    Printer(const Options& o, std::string what, int64_t count, bool headed);

    Printer(const Printer&) = delete;
    Printer& operator=(const Printer&) = delete;
    ~Printer();

    bool reader_gone() const { return out_.closed(); }
    /// Prints the next piece of continuation `number`, which ends with an id of -1 and the remaining text.
    void take(int64_t number, int32_t id, std::string_view text);
    /// Ends the line, so that the log starts on a new line of a terminal. Writes to stderr: stdout gets only the text,
    /// and whether it is a terminal is not known (mpirun puts a pseudo-terminal in between).
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
