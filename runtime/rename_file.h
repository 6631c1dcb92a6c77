#pragma once
/// What files need that appear whole or not at all (atomic_file.h, part_file.h). Where a function returns an int it is
/// 0 or errno.

#include <filesystem>
#include <string>

#include "runtime/atomic_file.h"
#include "runtime/error.h"

namespace trireme {

std::string reason_of(int error);
/// What a program ends with that cannot create a file, for this reason: Exit::kCantCreate, kPermission, kIo or kOs.
Exit exit_of_creation(int error);
/// Errors: Exit::kCantCreate unless `path` names a file, and is free or a regular file that may be replaced.
void require_replaceable(const std::filesystem::path& path, IfThere old);
/// Errors: exit_of_creation().
[[noreturn]] void cannot_create(const std::filesystem::path& path, int error);
int rename_over(const std::filesystem::path& from, const std::filesystem::path& to);
/// Gives the finished file at `from` the name `to`, if that is free, in one step: nobody else can take the name
/// meanwhile. EEXIST where it is taken.
int rename_if_free(const std::filesystem::path& from, const std::filesystem::path& to);
/// Whether this is what the name stands for, still: it may have been removed, or replaced, before it was locked.
bool has_name(int descriptor, const std::filesystem::path& path);
/// Writes the names in the folder of `path` to the disk. Errors: Exit::kIo.
void sync_folder(const std::filesystem::path& path);

}  // namespace trireme
