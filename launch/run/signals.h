#pragma once
/// Signals that end a run early: at once where there is nothing to keep yet, else between tokens.

#include <chrono>
#include <functional>
#include <thread>

namespace trireme {

/// SIGPIPE, SIGXFSZ: from here on a write to a closed pipe, or beyond the size that files may have (ulimit -f), fails
/// with an error instead of ending the process.
void ignore_signals_of_writes();

/// While an object of this type exists, and until remember_signals(), SIGINT and SIGTERM end the run, whatever its
/// threads are doing. A second signal, and any signal later, ends the process as it does by default. At most one
/// exists.
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

/// From here on the first signal is only remembered, for remembered_signal() to tell. Does not return where a signal
/// has come before and the run is being left.
void remember_signals();
/// The number of the signal that came; 0: none.
int remembered_signal();

}  // namespace trireme
