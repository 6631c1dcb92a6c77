#pragma once
/// Large files that are written piece by piece and appear whole or not at all.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "runtime/atomic_file.h"

namespace trireme {

/// A file that gets its name with publish(), or goes. Until then it is .NAME.trireme-part beside it, which this process
/// holds locked. What a killed process has left there is overwritten; what another process holds is an error.
class PartFile {
  public:
    /// Errors: Exit::kCantCreate (the folder is missing; `path` is no regular file, or is there and may not be
    /// replaced; another process is writing it), or as exit_of_creation() says.
    PartFile(std::filesystem::path path, IfThere old);
    /// The same; null where another process holds it.
    static std::unique_ptr<PartFile> unless_held(std::filesystem::path path, IfThere old);
    /// Who holds the part of `path`: "process 123 (trireme generate ...)"; where this system does not know, as for
    /// another node's process, "another process".
    static std::string holder(const std::filesystem::path& path);
    PartFile(const PartFile&) = delete;
    PartFile& operator=(const PartFile&) = delete;
    ~PartFile();

    /// Room for so many bytes: a disk that is too full is found here. Errors: Exit::kIo.
    void reserve(uint64_t bytes);
    /// May be called by several threads. Errors: Exit::kIo.
    void write(uint64_t offset, std::span<const std::byte> bytes);
    /// All of it goes to the disk, then it takes its name, then the folder goes to the disk. Errors: as the
    /// constructor, Exit::kIo.
    void publish();
    /// Whether it has its name: publish() may fail behind that, when the folder cannot be flushed.
    bool published() const { return published_; }
    const std::filesystem::path& path() const { return path_; }

  private:
    enum class Lock { kTaken, kReplaced, kHeld };
    /// Without a lock yet.
    struct Unlocked {};
    PartFile(std::filesystem::path path, IfThere old, Unlocked);
    /// False: another process holds it.
    bool take();
    Lock try_to_take();

    std::filesystem::path path_, part_;
    IfThere old_;
    int fd_ = -1;
    bool published_ = false;
};

}  // namespace trireme
