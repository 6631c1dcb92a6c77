#pragma once
/// Reads whole texts: prompts, ids, INI files. Pipes are allowed.

#include <cstddef>
#include <functional>
#include <string>

namespace trireme {

/// Errors: Exit::kNoInput (not there, or a folder), kPermission, kIo, kData beyond `limit` bytes.
std::string read_text_file(const std::string& path, size_t limit);
/// The same; "-" is stdin. `waiting` is called ten times a second or more for as long as it takes.
std::string read_text_file_or_stdin(const std::string& path, size_t limit, const std::function<void()>& waiting);

}  // namespace trireme
