#pragma once
/// Console: the lines that a person writes. On a terminal they can be edited, and earlier lines come back (libedit).

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace trireme {

/// Used on rank 0, of stdin and stdout. There may be one.
class Console {
  public:
    Console();
    ~Console();
    Console(const Console&) = delete;
    Console& operator=(const Console&) = delete;

    /// Whether stdin and stdout are a terminal.
    bool terminal() const;
    /// What ended a line: its end, the end of the input, or a signal (remembered_signal).
    enum class End { kLine, kInput, kSignal };
    struct Line {
        End end = End::kLine;
        std::string text;  // without its end
    };
    /// Reads a line after showing `prompt`, on a terminal. A line that ends with a backslash continues on the next one.
    /// `waiting` is called several times a second. Errors: Exit::kIo.
    Line read(const char* prompt, const std::function<void()>& waiting);

  private:
    struct Editor;
    Line read_one(const char* prompt, const std::function<void()>& waiting);

    std::unique_ptr<Editor> editor_;  // null: no terminal
    std::string read_;                // bytes of stdin after the last line
};

}  // namespace trireme
