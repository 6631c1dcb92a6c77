#pragma once
/// write_file_atomically(): writes an output file, which appears complete or not at all.

#include <cstddef>
#include <filesystem>
#include <span>

namespace trireme {

/// Whether an existing file of the name is replaced, or is an error.
enum class IfThere { kReplace, kRefuse };

/// Writes `bytes` to the file `path` through a PartFile (part_file.h), and blocks until they are on the disk. With
/// kRefuse, only one of several writers of a new name succeeds, in whatever processes they run. A failure before the
/// renaming leaves an existing file unchanged. Errors: like PartFile.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, IfThere old);

}  // namespace trireme
