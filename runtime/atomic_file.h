#pragma once
/// Files that appear whole or not at all.

#include <cstddef>
#include <filesystem>
#include <span>

namespace trireme {

enum class IfThere { kReplace, kRefuse };

/// Writes `bytes` as the file `path`: a temporary file beside it, fsync, rename, fsync of the folder. What is at `path`
/// is replaced, or refused: then of several writers of a new name, in whatever processes, one gets it. A failure
/// removes the temporary file and leaves an older `path` as it was.
/// Errors: Exit::kCantCreate (folder missing, not writable; `path` is no regular file, or is there and may not be
/// replaced), kPermission, kIo (disk full).
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, IfThere old);

}  // namespace trireme
