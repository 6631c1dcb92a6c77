#pragma once
/// How a piece of work ended. The one place where the program catches exceptions.

#include <functional>
#include <string>

#include "runtime/error.h"

namespace trireme {

/// Thrown by every rank at once, to leave with `status` and without an error line: a signal, a closed stdout.
struct Stopped {
    int status;
};

struct Outcome {
    int status = 0;       // what the process would exit with
    std::string message;  // one line; empty: nothing to say
    bool agreed = false;  // every rank has this outcome, and knows that it has
};

/// Runs `work`. Whatever it throws becomes the outcome.
Outcome attempt(const std::function<void()>& work);

/// "trireme: error: message" on stderr, in one line: control characters are escaped, and it is cut at 4,000 bytes.
void print_error(const std::string& message);

}  // namespace trireme
