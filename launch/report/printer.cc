#include "launch/report/printer.h"

#include <cstdio>
#include <unistd.h>
#include <utility>

#include "runtime/log.h"

namespace trireme {

Printer::Printer(const Options& o, std::string what, int64_t count, bool headed)
    : out_(STDOUT_FILENO),
      what_(std::move(what)),
      count_(count),
      ids_asked_(o.print == Print::kIds),
      silent_(o.report_to_stdout()),
      headed_(headed) {
    // On a terminal, a log line never begins inside a text.
    if (::isatty(STDERR_FILENO) != 1) return;
    log::before_lines([](void* printer) { static_cast<Printer*>(printer)->end_line(); }, this);
}

Printer::~Printer() {
    log::before_lines(nullptr, nullptr);
}

void Printer::take(int64_t number, int32_t id, std::string_view text) {
    if (silent_) return;
    if (headed_ && !ids_asked_ && number != number_) {
        if (out_.last() != '\n') out_.write("\n");
        out_.write(fmt::format("{}=== {} {} of {} ===\n", number > 0 ? "\n" : "", what_, number + 1, count_));
    }
    number_ = number;
    if (id >= 0) ids_.push_back(id);
    if (!ids_asked_) out_.write(text);
    if (!text.empty()) ended_ = false;
    if (id >= 0) return;
    if (ids_asked_) out_.write(ids_as_json(ids_) + "\n");
    ids_.clear();
}

void Printer::end_line() {
    if (ended_ || out_.last() == '\n' || log::level() > log::Level::kInfo) return;
    ended_ = true;
    std::fputs("\n", stderr);
}

}  // namespace trireme
