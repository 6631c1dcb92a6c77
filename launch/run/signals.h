#pragma once
/// Signals that end a run early: at once where there is nothing to keep yet, else between tokens.

#include <chrono>
#include <functional>
#include <thread>

namespace trireme {

/// SIGPIPE, SIGXFSZ: from here on a write to a closed pipe, or beyond the size that files may have (ulimit -f), fails
/// with an error instead of ending the process.
void ignore_signals_of_writes();

/// As long as there is one, and until remember_signals(): SIGINT and SIGTERM end the run, whatever its threads are
/// doing then. A second signal, or one behind its life, ends the process as ever. One at a time.
class LeaveOnSignal {
  public:
    /// `leave` gets the signal's number, on a thread of its own, `delay` after it came, and does not return.
    LeaveOnSignal(std::chrono::milliseconds delay, std::function<void(int number)> leave);
    LeaveOnSignal(const LeaveOnSignal&) = delete;
    LeaveOnSignal& operator=(const LeaveOnSignal&) = delete;
    ~LeaveOnSignal();

  private:
    std::thread thread_;
};

/// From here on the first signal is only remembered: who has something to finish asks for it. Does not return where a
/// signal came before and the run is being left.
void remember_signals();
/// The number of the signal that came; 0: none.
int remembered_signal();

}  // namespace trireme
