#pragma once
/// PartFile: a large file that is written piece by piece and appears complete or not at all.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "runtime/atomic_file.h"

namespace trireme {

/// A file NAME that is written as .NAME.trireme-part in the same folder, and renamed by publish(). Without publish(),
/// the destructor removes the part file. Meanwhile this process holds a lock on it. A part file that a killed process
/// left is overwritten; one that another process holds is an error. On a file system without locks, a part file that is
/// not empty is an error.
class PartFile {
  public:
    /// Errors: Exit::kCantCreate (the folder is missing; `path` is no regular file, or exists and may not be replaced;
    /// another process is writing it), or the code that exit_of_creation() returns.
    PartFile(std::filesystem::path path, IfThere old);
    /// Like the constructor, but returns null if another process holds the part file.
    static std::unique_ptr<PartFile> unless_held(std::filesystem::path path, IfThere old);
    /// Returns which process holds the part of `path`: "process 123 (trireme generate ...)", or "another process" if
    /// the system does not report it, as for a process on another node.
    static std::string holder(const std::filesystem::path& path);
    PartFile(const PartFile&) = delete;
    PartFile& operator=(const PartFile&) = delete;
    ~PartFile();

    /// Reserves disk space for `bytes` bytes, so that a full disk is detected here. A file system that cannot reserve
    /// detects it in write(). Errors: Exit::kIo.
    void reserve(uint64_t bytes);
    /// Writes `bytes` at `offset`. Several threads may call this at once. Errors: Exit::kIo.
    void write(uint64_t offset, std::span<const std::byte> bytes);
    /// Flushes the file to the disk, renames it, then flushes the folder. Errors: like the constructor, and Exit::kIo.
    void publish();
    /// Returns whether the file has its name. publish() may have failed afterwards, if the folder cannot be flushed.
    bool published() const { return published_; }
    /// The file's final path, not that of the part.
    const std::filesystem::path& path() const { return path_; }

  private:
    enum class Lock { kTaken, kReplaced, kHeld };  // kReplaced: try again; kHeld: by another process
    struct Unlocked {};
    PartFile(std::filesystem::path path, IfThere old, Unlocked);
    /// Locks and empties the part. Returns false if another process holds it.
    bool take();
    Lock try_to_take();

    std::filesystem::path path_, part_;
    IfThere old_;
    int fd_ = -1;
    bool published_ = false;
};

}  // namespace trireme
