#pragma once
/// UnnamedFile: a temporary file for data that exceeds memory. TokenStoreWriter keeps texts in it until their number
/// and sizes are known.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace trireme {

/// A file without a name: the system removes it when the process ends, for any reason.
class UnnamedFile {
  public:
    /// Makes a file in the file system of `folder`. Errors: Exit::kCantCreate, kPermission, kIo, kOs.
    explicit UnnamedFile(const std::filesystem::path& folder);
    UnnamedFile(const UnnamedFile&) = delete;
    UnnamedFile& operator=(const UnnamedFile&) = delete;
    ~UnnamedFile();

    /// Writes at the end of the file. Errors: Exit::kIo.
    void append(std::span<const std::byte> bytes);
    /// Reads [offset, offset + out.size()), which must have been appended. Errors: Exit::kIo.
    void read(uint64_t offset, std::span<std::byte> out) const;
    uint64_t bytes() const { return bytes_; }  // appended so far

  private:
    std::filesystem::path folder_;
    int fd_ = -1;
    uint64_t bytes_ = 0;
};

}  // namespace trireme
