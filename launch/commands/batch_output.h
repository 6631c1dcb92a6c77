#pragma once
/// The output of a batch: a line a request, each there as a whole or not at all, whatever ends the run.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dist/agreement.h"
#include "launch/commands/batch_requests.h"

namespace trireme {

class BatchOutput {
  public:
    /// Reads the lines that are there; changes nothing yet. `anew`: they will go. Errors: Exit::kCantCreate (no regular
    /// file, no folder for it, another run is writing it), kPermission, kIo.
    BatchOutput(std::string path, bool anew);
    BatchOutput(const BatchOutput&) = delete;
    BatchOutput& operator=(const BatchOutput&) = delete;
    ~BatchOutput();

    /// Lines that an earlier run has finished. What it left of one more is none.
    int64_t done() const { return static_cast<int64_t>(lines_.size()); }
    /// These must be of the first of `requests`: their numbers and the requests that they repeat. Errors: Exit::kData.
    void require_of(const std::vector<BatchLine>& requests) const;
    /// These lines must have been made with the same `settings` (deciding_settings). Errors: Exit::kData; it names the
    /// first flag that differs.
    void require_made_with(const KeyValues& settings) const;
    /// The text that line `index` has. Errors: Exit::kData.
    std::string text(int64_t index) const;

    /// From here on the file has these lines, and nothing behind them. Errors: as the constructor.
    void begin();
    /// Adds a line and its end in one write, and waits until it is on the disk. Errors: Exit::kIo.
    void append(std::string line);

  private:
    std::string where(int64_t index) const;
    void open(int creation);

    std::string path_;
    int fd_ = -1;              // -1: there is no file yet
    std::vector<Json> lines_;  // of those that are there
    int64_t kept_ = 0;         // bytes of these
};

}  // namespace trireme
