#pragma once
/// Lines for people, on stderr: "[rank/size 1.234s] text". Rank 0 alone, unless TRIREME_LOG=all; errors from any rank.

#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace trireme::log {

enum class Level { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// Until called: rank 0 of 1, level info.
void configure(int rank, int size, Level level);
Level level();
/// Called before each line that the calling thread writes from now on: ends what else is on the terminal's line. Null:
/// nothing.
void before_lines(void (*call)(void* data), void* data);
/// Control characters are escaped and a line is cut at 4,000 characters: names from files end up here.
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
