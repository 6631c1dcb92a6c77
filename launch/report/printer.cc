#include "launch/report/printer.h"

#include <cstdio>
#include <unistd.h>
#include <utility>

#include "launch/commands/commands.h"
#include "runtime/log.h"

namespace trireme {

Printer::Printer(const Options& o, std::string what, int64_t count, bool headed)
    : out_(STDOUT_FILENO),
      what_(std::move(what)),
      count_(count),
      ids_asked_(o.print == Print::kIds),
      silent_(o.report_to_stdout()),
      headed_(headed) {}

void Printer::take(int64_t number, int32_t id, std::string_view text) {
    if (silent_) return;
    if (headed_ && !ids_asked_ && number != number_) {
        if (out_.last() != '\n') out_.write("\n");
        out_.write(fmt::format("{}=== {} {} of {} ===\n", number > 0 ? "\n" : "", what_, number + 1, count_));
    }
    number_ = number;
    if (id >= 0) ids_.push_back(id);
    if (!ids_asked_) out_.write(text);
    if (id >= 0) return;
    if (ids_asked_) out_.write(ids_as_json(ids_) + "\n");
    ids_.clear();
}

void Printer::end_line() const {
    if (out_.last() != '\n' && log::level() <= log::Level::kInfo) std::fputs("\n", stderr);
}

}  // namespace trireme
