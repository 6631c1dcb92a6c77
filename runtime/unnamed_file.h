#pragma once
/// Files for bytes that outgrow memory and that nobody else needs.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace trireme {

/// A file without a name: it goes with the process, whatever ends that.
class UnnamedFile {
  public:
    /// It takes its room from the file system of `folder`. Errors: Exit::kCantCreate, kPermission.
    explicit UnnamedFile(const std::filesystem::path& folder);
    UnnamedFile(const UnnamedFile&) = delete;
    UnnamedFile& operator=(const UnnamedFile&) = delete;
    ~UnnamedFile();

    /// Errors: Exit::kIo.
    void append(std::span<const std::byte> bytes);
    /// [offset, offset + out.size()) was appended. Errors: Exit::kIo.
    void read(uint64_t offset, std::span<std::byte> out) const;
    uint64_t bytes() const { return bytes_; }

  private:
    std::filesystem::path folder_;
    int fd_ = -1;
    uint64_t bytes_ = 0;
};

}  // namespace trireme
