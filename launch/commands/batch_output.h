#pragma once
/// Result file of batch: one JSON line per request, in the order of the requests. A later run of the same command
/// appends the lines that are missing.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dist/agreement.h"
#include "launch/commands/batch_requests.h"

namespace trireme {

/// Used by rank 0 alone. An existing file is locked until destruction.
class BatchOutput {
  public:
    /// Reads the lines of an existing file; changes nothing yet. The flag (--force) ignores them, and begin() then
    /// removes them. Errors: Exit::kCantCreate (no regular file, no folder for it, another run is writing it),
    /// kPermission, kIo, kData (a line is not JSON).
    BatchOutput(std::string path, bool anew);
    BatchOutput(const BatchOutput&) = delete;
    BatchOutput& operator=(const BatchOutput&) = delete;
    ~BatchOutput();

    /// The number of complete lines that earlier runs have written. An incomplete last line, as a killed run may leave,
    /// does not count.
    int64_t done() const { return static_cast<int64_t>(lines_.size()); }
    /// Checks that line i of these has index i and requests[i]. Errors: Exit::kData.
    void require_of(const std::vector<BatchLine>& requests) const;
    /// Checks that these lines were made with the same `settings` (deciding_settings). Errors: Exit::kData, naming the
    /// first flag that differs.
    void require_made_with(const KeyValues& settings) const;
    /// The generated text in line `index` of these, from 0. Errors: Exit::kData.
    std::string text(int64_t index) const;

    /// Creates the file, or truncates it after these lines. Call it before append(). Errors: as the constructor.
    void begin();
    /// Appends `line` and a line end, and blocks until they are on the disk. Errors: Exit::kIo.
    void append(std::string line);

  private:
    explicit BatchOutput(std::string path) : path_(std::move(path)) {}
    std::string where(int64_t index) const;
    void open(int creation);

    std::string path_;
    int fd_ = -1;              // -1: the file is not created yet
    std::vector<Json> lines_;  // of earlier runs
    int64_t kept_ = 0;         // bytes of lines_ in the file
};

}  // namespace trireme
