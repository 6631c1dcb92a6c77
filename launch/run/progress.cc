#include "launch/run/progress.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "runtime/log.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

constexpr double kRedraw = 0.1, kNextLine = 10;  // seconds
constexpr std::string_view kWipe = "\r\033[K";

std::string amounts(std::string_view unit, int64_t done, int64_t total) {
    if (unit == "bytes") {
        return fmt::format("{:.1f} of {:.1f} MB", static_cast<double>(done) * 1e-6, static_cast<double>(total) * 1e-6);
    }
    return fmt::format("{} of {} {}", done, total, unit);
}

/// Returns ", 12.3 tok/s, 40 s left"; "" if no rate is known.
std::string rate(std::string_view unit, int64_t done, int64_t total, double seconds, bool took) {
    if (done <= 0 || seconds <= 0) return took ? fmt::format(", {}", duration(seconds)) : "";
    const double per_s = static_cast<double>(done) / seconds;
    const std::string speed = unit == "bytes"    ? fmt::format("{:.1f} MB/s", per_s * 1e-6)
                              : unit == "tokens" ? fmt::format("{:.1f} tok/s", per_s)
                                                 : fmt::format("{:.1f} {}/s", per_s, unit);
    return fmt::format(", {}{}, {} left", speed, took ? ", " + duration(seconds) : "",
                       duration(static_cast<double>(total - done) / per_s));
}

int64_t percent(int64_t done, int64_t total) {
    return total > 0 ? static_cast<int64_t>(100.0 * static_cast<double>(done) / static_cast<double>(total)) : 100;
}

}  // namespace

std::string duration(double seconds) {
    const auto s = static_cast<int64_t>(seconds + 0.5);
    if (s < 100) return fmt::format("{} s", s);
    if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
    return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

std::string progress_bar(std::string_view what, std::string_view unit, int64_t done, int64_t total, int64_t width,
                         double seconds) {
    const std::string tail = fmt::format(" {:3} %  {}{}", percent(done, total), amounts(unit, done, total),
                                         seconds > 0 ? rate(unit, done, total, seconds, /*took=*/false) : "");
    const int64_t spare = width - static_cast<int64_t>(what.size() + tail.size()) - 4;
    std::string bar;
    if (spare >= 10) {
        const auto room = static_cast<size_t>(std::min<int64_t>(spare, 40));
        const size_t full = room * static_cast<size_t>(percent(done, total)) / 100;
        bar = fmt::format("  [{}{}]", std::string(full, '#'), std::string(room - full, '.'));
    }
    return (std::string(what) + bar + tail).substr(0, static_cast<size_t>(std::max<int64_t>(width, 0)));
}

std::string progress_line(std::string_view what, std::string_view unit, int64_t done, int64_t total, double seconds) {
    return fmt::format("{}: {} %, {}{}", what, percent(done, total), amounts(unit, done, total),
                       rate(unit, done, total, seconds, /*took=*/true));
}

size_t terminal_width(int fd) {
    struct winsize size = {};
    return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

ProgressSink stderr_progress(bool enabled) {
    const char* term = std::getenv("TERM");
    return {.enabled = enabled,
            .terminal = ::isatty(STDERR_FILENO) == 1 && term != nullptr && std::strcmp(term, "dumb") != 0,
            .width = static_cast<int64_t>(terminal_width(STDERR_FILENO)) - 1,
            .draw =
                [](std::string_view text) {
                    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
                },
            .line = [](std::string_view text) { log::info("{}", text); },
            .seconds = [] { return static_cast<double>(trace::now()) * 1e-9; }};
}

ProgressMeter::ProgressMeter(std::string_view what, std::string_view unit, ProgressSink sink)
    : what_(what), unit_(unit), sink_(std::move(sink)), begin_(sink_.seconds()), last_(begin_) {}

ProgressMeter::~ProgressMeter() {
    if (drawn_) sink_.draw(kWipe);
}

void ProgressMeter::operator()(int64_t done, int64_t total) {
    if (!sink_.enabled) return;
    if (done >= total) {  // from now on others may write to this line
        if (drawn_) sink_.draw(kWipe);
        drawn_ = false;
        return;
    }
    const double now = sink_.seconds();
    if (now - last_ < (sink_.terminal ? kRedraw : kNextLine)) return;
    last_ = now;
    if (sink_.terminal) {
        sink_.draw(fmt::format("\r{}\033[K", progress_bar(what_, unit_, done, total, sink_.width, now - begin_)));
        drawn_ = true;
    } else {
        sink_.line(progress_line(what_, unit_, done, total, now - begin_));
    }
}

}  // namespace trireme
