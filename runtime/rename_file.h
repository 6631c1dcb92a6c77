#pragma once
/// Helpers for files and folders that appear complete or not at all: names, renaming, flushing, error codes.
/// part_file.h and model/files/new_folder.h use them. Functions that return int return 0 or errno.

#include <filesystem>
#include <string>

#include "runtime/atomic_file.h"
#include "runtime/error.h"

namespace trireme {

/// Returns the system's text of an errno.
std::string reason_of(int error);
/// Returns the exit code if a file cannot be created because of this errno: Exit::kCantCreate, kPermission, kIo or kOs.
Exit exit_of_creation(int error);
/// Errors: Exit::kCantCreate unless `path` is a file name that is free, or is a regular file that may be replaced.
void require_replaceable(const std::filesystem::path& path, IfThere old);
/// Throws for an errno: EEXIST as "exists by now", others with the code of exit_of_creation().
[[noreturn]] void cannot_create(const std::filesystem::path& path, int error);
/// Renames `from` to `to`, and replaces an existing file `to`.
int rename_over(const std::filesystem::path& from, const std::filesystem::path& to);
/// Renames the finished file `from` to `to` if that name is free, in one step: no other process can take the name
/// meanwhile. Returns EEXIST if the name is taken.
int rename_if_free(const std::filesystem::path& from, const std::filesystem::path& to);
/// Returns whether `path` still names the open file: it may have been removed or replaced before it was locked.
bool has_name(int descriptor, const std::filesystem::path& path);
/// Flushes the folder that contains `path` to the disk, so that renamed files keep their names. Errors: Exit::kIo.
void sync_folder(const std::filesystem::path& path);

}  // namespace trireme
