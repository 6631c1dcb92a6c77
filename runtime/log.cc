#include "runtime/log.h"

#include <atomic>
#include <memory>

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include "runtime/env.h"
#include "runtime/trace.h"

namespace trireme::log {
namespace {

thread_local void (*before)(void*) = nullptr;
thread_local void* before_data = nullptr;

struct State {
    int rank = 0, size = 1;
    std::atomic<Level> level{Level::kInfo};
    uint64_t start = trace::now();
    std::shared_ptr<spdlog::logger> out;
    bool colored = false;
    State() {
        auto sink = std::make_shared<spdlog::sinks::ansicolor_stderr_sink_mt>(
            no_color() ? spdlog::color_mode::never : spdlog::color_mode::automatic);
        out = std::make_shared<spdlog::logger>("trireme", sink);
        colored = sink->should_color();
        out->set_pattern("%v");
        out->set_level(spdlog::level::trace);
        out->flush_on(spdlog::level::trace);
    }
};

State& state() {
    static State s;
    return s;
}

}  // namespace

void configure(int rank, int size, Level level) {
    state().rank = rank;
    state().size = size;
    state().level = level;
}

Level level() {
    return state().level;
}

void before_lines(void (*call)(void*), void* data) {
    before = call;
    before_data = data;
}

std::string level_word(Level level) {
    const char* word = level == Level::kWarn ? "warning:" : level == Level::kError ? "error:" : nullptr;
    if (word == nullptr) return "";
    if (!state().colored) return fmt::format("{} ", word);
    return fmt::format("\033[{}m{}\033[m ", level == Level::kWarn ? "33;1" : "31;1", word);
}

std::string printable(std::string_view line) {
    constexpr size_t kLongest = 4000;
    std::string text;
    for (const char c : line.substr(0, kLongest)) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            text += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
        } else {
            text += c;
        }
    }
    return line.size() > kLongest ? text + "..." : text;
}

void write(Level level, std::string_view line) {
    State& s = state();
    if (level < s.level.load() || (s.rank != 0 && level < Level::kError && !env().log_all)) return;
    const std::string text =
        fmt::format("[{}/{} {:.3f}s] {}{}", s.rank, s.size, static_cast<double>(trace::now() - s.start) * 1e-9,
                    level_word(level), printable(line));
    if (before != nullptr) before(before_data);
    s.out->log(static_cast<spdlog::level::level_enum>(level), fmt::runtime("{}"), text);
}

}  // namespace trireme::log
