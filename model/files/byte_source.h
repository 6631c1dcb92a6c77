#pragma once
/// Bytes at rest, read by position: a regular file, or memory (tests and fuzzers). Const calls are thread safe.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace trireme {

class ByteSource {
  public:
    virtual ~ByteSource() = default;

    /// How messages call it: the file's path.
    const std::string& name() const { return name_; }
    uint64_t size() const { return size_; }

    /// Exactly out.size() bytes from `offset`. Errors: Exit::kData past the end, kIo.
    void read(uint64_t offset, std::span<std::byte> out) const;
    /// Exit::kIo unless the file is still the one that was opened (device, inode, size, modification time).
    virtual void check_unchanged() const {}

  protected:
    ByteSource(std::string name, uint64_t size) : name_(std::move(name)), size_(size) {}
    /// [offset, offset + out.size()) lies inside.
    virtual void do_read(uint64_t offset, std::span<std::byte> out) const = 0;

  private:
    std::string name_;
    uint64_t size_;
};

/// `bytes` must outlive the source.
std::unique_ptr<ByteSource> memory_source(std::string name, std::span<const std::byte> bytes);

/// Opens a regular file: pipes, devices and folders are refused (and never waited for). Symbolic links are followed:
/// the user named the path. Errors: Exit::kNoInput, kPermission, kData (not a regular file), kOs (descriptors).
std::unique_ptr<ByteSource> open_file(const std::filesystem::path& path);

/// Opens `file`, a plain name out of a foreign index, inside `folder`. A symbolic link must stay inside the folder or
/// be a Hugging Face cache entry: `folder` is <repo>/snapshots/<revision> and the link ends in <repo>/blobs.
/// Errors: as open_file; Exit::kData for a name with a separator, "..", or a link that leads outside.
std::unique_ptr<ByteSource> open_in_folder(const std::filesystem::path& folder, const std::string& file);

/// Whether `folder` has an entry of that name, be it a broken link or one that may not be read: opening says what it
/// is.
bool has_entry(const std::filesystem::path& folder, const std::string& file);

/// All of it. Errors: Exit::kData beyond `limit` bytes.
std::string read_text(const ByteSource& source, uint64_t limit);

}  // namespace trireme
