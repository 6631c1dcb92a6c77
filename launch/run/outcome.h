#pragma once
/// Outcome of a piece of work: its exit status and message. attempt() turns exceptions into outcomes.

#include <functional>
#include <string>

#include "runtime/error.h"

namespace trireme {

/// Thrown by all ranks together to exit with `status` and without an error line: a signal, a closed stdout.
struct Stopped {
    int status;
};

struct Outcome {
    int status = 0;       // the exit status that the process would have
    std::string message;  // one line; empty: there is no message
    bool agreed = false;  // every rank has this outcome, and each has been notified
};

/// Runs `work`. Any exception becomes the outcome.
Outcome attempt(const std::function<void()>& work);

/// Prints "trireme: error: message" as one line on stderr. Control characters are escaped; it is cut at 4,000 bytes.
void print_error(const std::string& message);

}  // namespace trireme
