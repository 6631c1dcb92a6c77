#pragma once
/// Outputs of a run: stdout without a buffer, and checks before work begins that output files can be written.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launch/flags/options.h"

namespace trireme {

/// Writes to stdout without a buffer, so that a token is visible when it is generated.
class TextOut {
  public:
    /// `fd`: the descriptor, not owned; error messages call it "stdout" in any case.
    explicit TextOut(int fd) : fd_(fd) {}

    /// Blocks until the text is written. Returns false, and discards text, after the reader has closed the other end of
    /// a pipe. Errors: Exit::kIo.
    bool write(std::string_view text);
    /// Whether the reader has closed the other end of a pipe.
    bool closed() const { return closed_; }
    /// The last byte written; '\n' before the first.
    char last() const { return last_; }

  private:
    int fd_;
    bool closed_ = false;
    char last_ = '\n';
};

/// Returns "[1,2,3]": the output of tokenize and of --print ids.
std::string ids_as_json(const std::vector<int32_t>& ids);

/// Checks that a file can be created at `path`, by creating its part (runtime/part_file.h), and leaves no file. Does
/// nothing for an empty path. `flag` is for messages. Errors: Exit::kCantCreate if the file exists, without `force`;
/// PartFile's.
void probe_output(std::string_view flag, const std::string& path, bool force);

/// Checks the files of a run. No two of the outputs and of --input, --data and --tokens may be one file, by any path to
/// its folder (Exit::kUsage). All outputs must be writable, as by probe_output(), except --output-path, which commands
/// probe themselves. --record: as probe_record. A snapshot that both --load-kv and --save-kv name, spelt alike, may be
/// overwritten. Called on rank 0.
void probe_outputs(const Options& options);

/// Writes `text` to the target of --report-json: stdout, or a file, which is written completely or not at all. Does
/// nothing without the flag. Called on rank 0.
void write_report(const Options& options, const std::string& text);

}  // namespace trireme
