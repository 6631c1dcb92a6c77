#pragma once
/// Outputs of a run: stdout, unbuffered, and files. Before work begins, files are checked to be writable.

#include <string>
#include <string_view>

#include "launch/flags/options.h"

namespace trireme {

/// Writes to a descriptor without a buffer, so that a token is visible when it is generated.
class TextOut {
  public:
    explicit TextOut(int fd) : fd_(fd) {}

    /// Returns false after the reader has closed the other end. Errors: Exit::kIo.
    bool write(std::string_view text);
    bool closed() const { return closed_; }
    /// The last byte written; '\n' before the first.
    char last() const { return last_; }

  private:
    int fd_;
    bool closed_ = false;
    char last_ = '\n';
};

/// Checks that a file can be created at `path`, by creating its part (runtime/part_file.h), and leaves no file. Does
/// nothing for an empty path. `flag` is for messages. Errors: Exit::kCantCreate if the file exists, without `force`;
/// PartFile's.
void probe_output(std::string_view flag, const std::string& path, bool force);

/// Checks every file that the run will write except --output-path. No two of them may be the same file, however they
/// are spelt, nor may they be files of --input, --data and --tokens (Exit::kUsage). The file of --record must be free
/// or contain run records.
void probe_outputs(const Options& options);

/// Writes the report to the target of --report-json: stdout, or a file that is written completely or not at all.
void write_report(const Options& options, const std::string& text);

}  // namespace trireme
