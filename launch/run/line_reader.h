#pragma once
/// LineReader: lines of a pipe, as they arrive. read() returns all lines that have arrived, so that they can be served
/// together.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trireme {

class LineReader {
  public:
    /// `fd` is not owned; `name` is for messages.
    LineReader(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

    struct Line {
        std::string text;    // without its end
        int64_t number = 0;  // from 1
    };
    /// Waits for a line that is not blank, and returns it with the complete lines that follow it and can be read
    /// without waiting, at most kMostLines. Returns none at the end of the input, or when `waiting` returns false; it
    /// is called several times a second. Errors: Exit::kIo; kData for a line longer than kMostBytes.
    std::vector<Line> read(const std::function<bool()>& waiting);

    static constexpr size_t kMostLines = 4096;
    static constexpr size_t kMostBytes = size_t{1} << 28;

  private:
    bool fill(int patience_ms);
    void take(std::vector<Line>& lines);

    int fd_;
    std::string name_;
    std::string bytes_;    // read, and not part of a returned line
    size_t searched_ = 0;  // of them: without an end of line
    int64_t number_ = 0;
    bool ended_ = false;
};

}  // namespace trireme
