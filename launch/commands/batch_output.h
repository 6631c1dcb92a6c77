#pragma once
/// Output file of a batch: one line per request. A line is written completely or not at all, however the run ends.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dist/agreement.h"
#include "launch/commands/batch_requests.h"

namespace trireme {

class BatchOutput {
  public:
    /// Reads the existing lines; changes nothing yet. The flag discards them instead (--force). Errors:
    /// Exit::kCantCreate (no regular file, no folder for it, another run is writing it), kPermission, kIo.
    BatchOutput(std::string path, bool anew);
    BatchOutput(const BatchOutput&) = delete;
    BatchOutput& operator=(const BatchOutput&) = delete;
    ~BatchOutput();

    /// The number of complete lines of earlier runs. An incomplete last line does not count.
    int64_t done() const { return static_cast<int64_t>(lines_.size()); }
    /// Checks that these lines belong to the first of `requests`: their indices and requests. Errors: Exit::kData.
    void require_of(const std::vector<BatchLine>& requests) const;
    /// Checks that these lines were made with the same `settings` (deciding_settings). Errors: Exit::kData, naming the
    /// first flag that differs.
    void require_made_with(const KeyValues& settings) const;
    /// The generated text of line `index`. Errors: Exit::kData.
    std::string text(int64_t index) const;

    /// Creates the file, or truncates it after these lines. Errors: as the constructor.
    void begin();
    /// Appends a line and its end in one write, and waits until it is on the disk. Errors: Exit::kIo.
    void append(std::string line);

  private:
    std::string where(int64_t index) const;
    void open(int creation);

    std::string path_;
    int fd_ = -1;              // -1: the file is not created yet
    std::vector<Json> lines_;  // of earlier runs
    int64_t kept_ = 0;         // bytes of lines_ in the file
};

}  // namespace trireme
