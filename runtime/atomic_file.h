#pragma once
/// Atomic file writes: a file appears complete or not at all.

#include <cstddef>
#include <filesystem>
#include <span>

namespace trireme {

enum class IfThere { kReplace, kRefuse };

/// Writes `bytes` to the file `path` through a PartFile (part_file.h). `old` says whether an existing file is replaced
/// or is an error. With kRefuse, only one of several writers of a new name succeeds, in whatever processes they run. A
/// failure leaves an existing file unchanged. Errors: like PartFile.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, IfThere old);

}  // namespace trireme
