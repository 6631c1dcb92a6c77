#pragma once
/// Signals that end a run early: at once where there is nothing to keep yet, else between tokens.

#include <chrono>
#include <functional>
#include <thread>

namespace trireme {

/// SIGPIPE, SIGXFSZ: from here on a write to a closed pipe, or beyond the size that files may have (ulimit -f), fails
/// with an error instead of ending the process.
void ignore_signals_of_writes();

/// From its construction until remember_signals(), SIGINT and SIGTERM end the run, whatever its threads are doing. A
/// second signal, or one after the object's destruction, ends the process by the signal's default action. At most one
/// object may exist.
class LeaveOnSignal {
  public:
    /// `leave` is called with the signal's number, on a thread of its own, `delay` after the signal, and must not
    /// return.
    LeaveOnSignal(std::chrono::milliseconds delay, std::function<void(int number)> leave);
    LeaveOnSignal(const LeaveOnSignal&) = delete;
    LeaveOnSignal& operator=(const LeaveOnSignal&) = delete;
    ~LeaveOnSignal();

  private:
    std::thread thread_;
};

/// From here on the first signal is only remembered: code that has something to finish asks for remembered_signal().
/// Does not return if a signal came before, and `leave` has been called.
void remember_signals();
/// The number of the signal that came; 0: none.
int remembered_signal();

/// From here on SIGUSR1 does not end the process, but is remembered.
void remember_snapshot_signal();
bool snapshot_signal_came();

}  // namespace trireme
