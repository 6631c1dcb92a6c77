#pragma once
/// Reader of text files: prompts, ids, INI files. Pipes are allowed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trireme {

/// Reads a whole file. Errors: Exit::kNoInput (missing, or a folder), kPermission, kIo, kOs (too many open files),
/// kData for more than `limit` bytes.
std::string read_text_file(const std::string& path, size_t limit);
/// Like read_text_file(), but "-" is stdin. `waiting` (RankGroup's StillWaiting; may be empty) is called about ten
/// times a second or more until the end.
std::string read_text_file_or_stdin(const std::string& path, size_t limit, const std::function<void()>& waiting);

/// Calls `visit` for every line of `text` that is not blank, with its number from 1. The line has no end ("\n" or
/// "\r\n"), and the first one no byte-order mark.
void for_lines(std::string_view text, const std::function<void(std::string_view line, int64_t number)>& visit);
/// Like for_lines(), for a file or, with "-", stdin, which may be larger than memory. Ends when `visit` returns false.
/// `waiting` and errors: as read_text_file_or_stdin; Exit::kData for a line longer than `longest` bytes.
void for_lines_of(const std::string& path, size_t longest, const std::function<void()>& waiting,
                  const std::function<bool(std::string_view line, int64_t number)>& visit);

}  // namespace trireme
