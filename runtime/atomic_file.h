#pragma once
/// Files that appear whole or not at all.

#include <cstddef>
#include <filesystem>
#include <span>

namespace trireme {

enum class IfThere { kReplace, kRefuse };

/// Writes `bytes` as the file `path`, as a PartFile (part_file.h). What is at `path` is replaced, or refused: then of
/// several writers of a new name, in whatever processes, one gets it. A failure leaves an older `path` as it was.
/// Errors: PartFile's.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes, IfThere old);

}  // namespace trireme
