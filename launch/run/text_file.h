#pragma once
/// Reads whole texts: prompts, ids, INI files. Pipes are allowed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trireme {

/// Errors: Exit::kNoInput (not there, or a folder), kPermission, kIo, kData beyond `limit` bytes.
std::string read_text_file(const std::string& path, size_t limit);
/// The same; "-" is stdin. `waiting` is called ten times a second or more for as long as it takes.
std::string read_text_file_or_stdin(const std::string& path, size_t limit, const std::function<void()>& waiting);

/// Calls `visit` for every line of `text` that holds more than blanks, without its end ("\n" or "\r\n") and without a
/// byte-order mark before the first, and with its number from 1.
void for_lines(std::string_view text, const std::function<void(std::string_view line, int64_t number)>& visit);
/// The same of a file or, with "-", of stdin, which may be larger than memory: one line at a time is there. Ends where
/// `visit` returns false. `waiting` and errors: as read_text_file_or_stdin; Exit::kData for a line beyond `longest`
/// bytes.
void for_lines_of(const std::string& path, size_t longest, const std::function<void()>& waiting,
                  const std::function<bool(std::string_view line, int64_t number)>& visit);

}  // namespace trireme
