#pragma once
/// Log lines on stderr: "[rank/size 1.234s] text". Rank 0 writes, or all with TRIREME_LOG=all; errors: any rank.

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace trireme::log {

enum class Level { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// Sets this rank, the number of ranks, and the least level that is written. Before this call: rank 0 of 1, info.
void configure(int rank, int size, Level level);
Level level();
/// Registers call(data), which runs before each later line of the calling thread. The printer of generated tokens uses
/// it to end the terminal's unfinished line. Null: none.
void before_lines(void (*call)(void* data), void* data);
/// "warning: " or "error: ", in colour on a terminal; nothing for other levels.
std::string level_word(Level level);
/// Cuts a line at 4,000 bytes and escapes control characters: it can contain names from files.
std::string printable(std::string_view line);
/// Writes a line, cut at 4,000 characters, with control characters escaped: it can contain names from files. Does
/// nothing below level(), or on a rank that does not log.
void write(Level level, std::string_view line);

template <class... Args>
void trace(fmt::format_string<Args...> text, Args&&... args) {
    if (level() <= Level::kTrace) write(Level::kTrace, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
    if (level() <= Level::kDebug) write(Level::kDebug, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
    write(Level::kInfo, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
    write(Level::kWarn, fmt::format(text, std::forward<Args>(args)...));
}
template <class... Args>
void error(fmt::format_string<Args...> text, Args&&... args) {
    write(Level::kError, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace trireme::log
