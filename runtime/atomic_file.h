#pragma once
/// Files that appear whole or not at all.

#include <cstddef>
#include <filesystem>
#include <span>

namespace trireme {

/// Writes `bytes` as the file `path`: a temporary file beside it, fsync, rename over whatever was there, fsync of the
/// folder. A failure removes the temporary file and leaves an older `path` as it was.
/// Errors: Exit::kCantCreate (folder missing, not writable; `path` is no regular file), kPermission, kIo (disk full).
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace trireme
