#pragma once
/// A run's outputs: stdout, unbuffered, and files, for which it is checked before work begins that they can be written.

#include <string>
#include <string_view>

#include "launch/flags/options.h"

namespace trireme {

/// Writes to a descriptor at once, without a buffer: a token is seen when it is made.
class TextOut {
  public:
    explicit TextOut(int fd) : fd_(fd) {}

    /// False once the reader has closed the other end. Errors: Exit::kIo.
    bool write(std::string_view text);
    bool closed() const { return closed_; }
    /// The last byte written, '\n' before the first.
    char last() const { return last_; }

  private:
    int fd_;
    bool closed_ = false;
    char last_ = '\n';
};

/// Checks that a file can be created at `path`, by its part (runtime/part_file.h), and leaves nothing behind; does
/// nothing for an empty path. `flag`: for messages. Errors: Exit::kCantCreate where it exists, without `force`;
/// PartFile's.
void probe_output(std::string_view flag, const std::string& path, bool force);

/// The same of every file that the run will write, but for a batch's, no two of which may be one, however they are
/// spelt, nor a batch's requests (Exit::kUsage). What is to get a run record must be a file of them, or free.
void probe_outputs(const Options& options);

/// Writes the report where --report-json asks for it: stdout, or a file, as a whole or not at all.
void write_report(const Options& options, const std::string& text);

}  // namespace trireme
