#pragma once
/// Progress of long operations, such as load and prefill: a bar on a terminal, else a log line every 10 s. On stderr.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trireme {

/// Returns "load  [#####.....]  50 %  104.9 of 209.7 MB, 8.7 MB/s, 12 s left", at most `width` columns. `what` is
/// "load", and `unit` that of `done` and `total`: "bytes" (shown as MB), "tokens" or another. `seconds`: time that has
/// passed; 0: rate and remaining time are left out.
std::string progress_bar(std::string_view what, std::string_view unit, int64_t done, int64_t total, int64_t width,
                         double seconds = 0);
/// Returns "12 s", "3 min 20 s", "2 h 5 min".
std::string duration(double seconds);
/// Returns "load: 50 %, 104.9 of 209.7 MB, 8.7 MB/s, 12 s, 12 s left".
std::string progress_line(std::string_view what, std::string_view unit, int64_t done, int64_t total, double seconds);

/// The output and the clock of progress; tests have their own.
struct ProgressSink {
    bool enabled = false;   // false: shows nothing, as on ranks other than 0 and with --no-progress
    bool terminal = false;  // draws bars with `draw`; else writes lines with `line`
    int64_t width = 80;     // columns of the terminal
    std::function<void(std::string_view)> draw;  // writes to the terminal, unchanged
    std::function<void(std::string_view)> line;  // writes a whole line
    std::function<double()> seconds;             // monotonic clock
};
/// Returns the columns of the terminal `fd`; 80 if it is unknown.
size_t terminal_width(int fd);
/// The sink for stderr. A terminal without TERM, or with TERM=dumb, gets lines.
ProgressSink stderr_progress(bool enabled);

/// Shows the progress of one operation, whose time begins with the constructor. Can be passed as Progress
/// (model/weights.h). Draws at most ten times a second. Erases its bar when `done` reaches `total`, or at destruction.
class ProgressMeter {
  public:
    /// `what` and `unit`, as of progress_bar(), must outlive the meter.
    ProgressMeter(std::string_view what, std::string_view unit, ProgressSink sink);
    ProgressMeter(const ProgressMeter&) = delete;
    ProgressMeter& operator=(const ProgressMeter&) = delete;
    ~ProgressMeter();

    void operator()(int64_t done, int64_t total);

  private:
    std::string_view what_, unit_;
    const ProgressSink sink_;
    double begin_, last_;
    bool drawn_ = false;
};

}  // namespace trireme
