#include "launch/run/signals.h"

#include <csignal>

namespace trireme {
namespace {

volatile std::sig_atomic_t came = 0;

// The second signal, of either kind, ends the process at once.
extern "C" void remember(int number) {
    came = number;
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
}

}  // namespace

void ignore_closed_pipes() {
    std::signal(SIGPIPE, SIG_IGN);
}

void remember_signals() {
    struct sigaction action = {};
    action.sa_handler = remember;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

int remembered_signal() {
    return came;
}

}  // namespace trireme
