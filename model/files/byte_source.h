#pragma once
/// ByteSource: bytes of a regular file or of memory (tests and fuzzers), read by position. Const calls are thread safe.

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

    /// The file's path, for messages.
    const std::string& name() const { return name_; }
    uint64_t size() const { return size_; }

    /// Reads exactly out.size() bytes from `offset`. Errors: Exit::kData past the end, kIo.
    void read(uint64_t offset, std::span<std::byte> out) const;
    /// Throws Exit::kIo unless the file is still the one that was opened (device, inode, size, modification time).
    virtual void check_unchanged() const {}

  protected:
    ByteSource(std::string name, uint64_t size) : name_(std::move(name)), size_(size) {}
    /// [offset, offset + out.size()) is inside.
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

/// Opens `file`, a plain name (it may come from an index file), inside `folder`. A symbolic link must stay inside the
/// folder or be a Hugging Face cache entry: `folder` is <repo>/snapshots/<revision> and the link ends in <repo>/blobs.
/// Errors: as open_file; Exit::kData for a name with a separator, "..", or a link that leads outside.
std::unique_ptr<ByteSource> open_in_folder(const std::filesystem::path& folder, const std::string& file);

/// Whether `folder` has an entry of that name. True also for a broken link or an unreadable file: opening it then
/// reports the reason.
bool has_entry(const std::filesystem::path& folder, const std::string& file);

/// Returns the whole content. Errors: Exit::kData beyond `limit` bytes, kIo.
std::string read_text(const ByteSource& source, uint64_t limit);

}  // namespace trireme
