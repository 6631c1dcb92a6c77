#pragma once
/// Handling of signals that end a run early (SIGINT, SIGTERM, SIGUSR1): at once if there is no result to keep yet, else
/// between tokens.

#include <chrono>
#include <functional>
#include <thread>

namespace trireme {

/// Ignores SIGPIPE and SIGXFSZ. A write to a closed pipe, or beyond the limit of file sizes (ulimit -f), then fails
/// with an error instead of ending the process.
void ignore_signals_of_writes();

/// Ends the run on SIGINT or SIGTERM, from construction until remember_signals(), whatever its threads are doing. A
/// second signal, or one after the object's destruction, has its default action. At most one object may exist; main()
/// makes it before a command starts.
class LeaveOnSignal {
  public:
    /// `leave` is called with the signal's number, on its own thread, `delay` after the signal. It must not return.
    /// `delay` is for ranks other than 0: when one rank exits, the launcher ends the others. During the delay, rank 0
    /// has time to log its line.
    LeaveOnSignal(std::chrono::milliseconds delay, std::function<void(int number)> leave);
    LeaveOnSignal(const LeaveOnSignal&) = delete;
    LeaveOnSignal& operator=(const LeaveOnSignal&) = delete;
    ~LeaveOnSignal();

  private:
    std::thread thread_;
};

/// From this call on, the first SIGINT or SIGTERM is only remembered; a second one ends the process. Commands call it
/// when there is a result to keep, and then poll remembered_signal() (agreed_status does). Without a LeaveOnSignal this
/// call has no effect. Does not return if an earlier signal has already caused `leave` to be called.
void remember_signals();
/// The number of the SIGINT or SIGTERM that came; 0: none.
int remembered_signal();

/// Forgets a SIGINT that came: the next one is remembered again. A SIGTERM remains.
void forget_interrupt();

/// From this call on, SIGUSR1 does not end the process, but is remembered (--save-kv).
void remember_snapshot_signal();
/// Whether SIGUSR1 has come since remember_snapshot_signal(). It stays true.
bool snapshot_signal_came();

}  // namespace trireme
