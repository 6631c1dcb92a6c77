#pragma once
/// Outcome of a piece of work on one rank: its exit status and message. attempt() turns exceptions into outcomes.
/// main() and RankGroup::phase() use it.

#include <functional>
#include <string>

#include "runtime/error.h"

namespace trireme {

/// Thrown by all ranks together to exit with `status` and without an error line: after a signal, a snapshot, or a
/// closed stdout.
struct Stopped {
    int status;
};

struct Outcome {
    int status = 0;       // the exit status that the process would have
    std::string message;  // one line; empty: there is no message
    bool agreed = false;  // every rank has this outcome, and each has been notified
};

/// Runs `work`. An exception becomes the outcome; without one the status is 0.
Outcome attempt(const std::function<void()>& work);

/// Prints "trireme: error: message" as one line on stderr. Control characters are escaped; it is cut at 4,000 bytes.
void print_error(const std::string& message);

}  // namespace trireme
