#pragma once
/// Progress of what takes long: a bar on a terminal, a line every 10 s elsewhere. On stderr, from rank 0.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace trireme {

/// "load  [#####.....]  50 %  104.9 of 209.7 MB, 8.7 MB/s, 12 s left", at most `width` columns. After `seconds`; 0: how
/// long it takes is not known yet.
std::string progress_bar(std::string_view what, std::string_view unit, int64_t done, int64_t total, int64_t width,
                         double seconds = 0);
/// "12 s", "3 min 20 s", "2 h 5 min".
std::string duration(double seconds);
/// "load: 50 %, 104.9 of 209.7 MB, 8.7 MB/s, 12 s, 12 s left"
std::string progress_line(std::string_view what, std::string_view unit, int64_t done, int64_t total, double seconds);

/// Where progress goes and what time it is; a test has its own.
struct ProgressSink {
    bool enabled = false;
    bool terminal = false;
    int64_t width = 80;
    std::function<void(std::string_view)> draw;  // to the terminal, as it is
    std::function<void(std::string_view)> line;  // elsewhere, a whole line
    std::function<double()> seconds;             // monotonic
};
/// stderr as it is. On a terminal that cannot move its cursor (TERM=dumb): lines.
ProgressSink stderr_progress(bool enabled);

/// A Progress (model/weights.h). Draws at most ten times a second, and wipes its bar at the end.
class ProgressMeter {
  public:
    /// `what` and `unit` ("bytes", shown as MB, or "tokens") must outlive the meter.
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
