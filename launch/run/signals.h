#pragma once
/// Signals that end a run early, as flags to be looked at between tokens.

namespace trireme {

/// SIGPIPE: from here on a write to a closed pipe fails with EPIPE instead of ending the process.
void ignore_closed_pipes();

/// SIGINT and SIGTERM: the first one is only remembered, a second one ends the process as ever.
void remember_signals();
/// The number of the signal that came; 0: none.
int remembered_signal();

}  // namespace trireme
