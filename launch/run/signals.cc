#include "launch/run/signals.h"

#include <atomic>
#include <csignal>
#include <semaphore.h>
#include <unistd.h>
#include <utility>

namespace trireme {
namespace {

enum class Signals { kEndTheRun, kHaveEndedIt, kAreRemembered };

std::atomic<Signals> signals{Signals::kAreRemembered};
volatile std::sig_atomic_t came = 0, snapshot_came = 0;
sem_t news;  // posted by the signal handler, and by ~LeaveOnSignal to end its thread

// A second SIGINT or SIGTERM ends the process at once.
extern "C" void remember(int number) {
    came = number;
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    ::sem_post(&news);  // one of the few calls that a handler may make
}

extern "C" void remember_snapshot(int) {
    snapshot_came = 1;
}

/// Returns whether this call changed the state.
bool change(Signals from, Signals to) {
    return signals.compare_exchange_strong(from, to);
}

void remember_number(int number) {
    struct sigaction action = {};
    action.sa_handler = remember;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, nullptr);
}

}  // namespace

void ignore_signals_of_writes() {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
}

LeaveOnSignal::LeaveOnSignal(std::chrono::milliseconds delay, std::function<void(int number)> leave) {
    ::sem_init(&news, /*pshared=*/0, 0);
    came = 0;
    snapshot_came = 0;
    signals = Signals::kEndTheRun;
    remember_number(SIGINT);
    remember_number(SIGTERM);
    thread_ = std::thread([delay, leave = std::move(leave)] {
        while (::sem_wait(&news) != 0) {
        }  // EINTR: a handler ran on this thread
        if (came == 0) return;
        std::this_thread::sleep_for(delay);
        if (change(Signals::kEndTheRun, Signals::kHaveEndedIt)) leave(came);
    });
}

LeaveOnSignal::~LeaveOnSignal() {
    remember_signals();
    std::signal(SIGINT, SIG_DFL);  // no work is left to finish
    std::signal(SIGTERM, SIG_DFL);
    ::sem_post(&news);
    thread_.join();
}

void remember_signals() {
    if (change(Signals::kEndTheRun, Signals::kAreRemembered)) return;
    while (signals == Signals::kHaveEndedIt) ::pause();
}

int remembered_signal() {
    return came;
}

void forget_interrupt() {
    if (came != SIGINT) return;
    came = 0;
    remember_number(SIGINT);
    remember_number(SIGTERM);
}

void remember_snapshot_signal() {
    struct sigaction action = {};
    action.sa_handler = remember_snapshot;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, nullptr);
}

bool snapshot_signal_came() {
    return snapshot_came != 0;
}

}  // namespace trireme
