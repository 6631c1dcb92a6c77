#include "launch/signals.h"

#include <csignal>

namespace trireme {
namespace {

volatile std::sig_atomic_t came = 0;

extern "C" void remember(int number) {
    came = number;
}

}  // namespace

void ignore_closed_pipes() {
    std::signal(SIGPIPE, SIG_IGN);
}

void remember_signals() {
    struct sigaction action = {};
    action.sa_handler = remember;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

int remembered_signal() {
    return came;
}

}  // namespace trireme
