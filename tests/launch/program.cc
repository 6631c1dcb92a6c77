#include "tests/launch/program.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "launch/program.h"

namespace trireme::test {
namespace {

/// Descriptors 0, 1 and 2 are files in memory while this object exists.
class Redirected {
  public:
    explicit Redirected(const std::string& input) {
        std::fflush(stdout);
        std::fflush(stderr);
        for (int fd = 0; fd < 3; ++fd) {
            before_[static_cast<size_t>(fd)] = ::dup(fd);
            file_[static_cast<size_t>(fd)] = ::memfd_create("stream", MFD_CLOEXEC);
            ::dup2(file_[static_cast<size_t>(fd)], fd);
        }
        EXPECT_EQ(::pwrite(file_[0], input.data(), input.size(), 0), static_cast<ssize_t>(input.size()));
    }
    Redirected(const Redirected&) = delete;
    Redirected& operator=(const Redirected&) = delete;
    ~Redirected() {
        std::fflush(stdout);
        std::fflush(stderr);
        for (int fd = 0; fd < 3; ++fd) {
            ::dup2(before_[static_cast<size_t>(fd)], fd);
            ::close(before_[static_cast<size_t>(fd)]);
            ::close(file_[static_cast<size_t>(fd)]);
        }
    }

    std::string text(int fd) const {
        std::fflush(fd == STDOUT_FILENO ? stdout : stderr);
        const int file = file_[static_cast<size_t>(fd)];
        std::string text(static_cast<size_t>(::lseek(file, 0, SEEK_END)), 0);
        EXPECT_EQ(::pread(file, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
        return text;
    }

  private:
    std::array<int, 3> before_, file_;
};

/// What a run changes: the environment (MPI adds variables of a process that nothing has launched, which a later mpirun
/// would take for its own), the calling thread's cores, and the actions of signals.
class KeptState {
  public:
    KeptState() {
        for (char** e = environ; *e != nullptr; ++e) environment_.emplace_back(*e);
        ::sched_getaffinity(0, sizeof cores_, &cores_);
        for (size_t i = 0; i < actions_.size(); ++i) ::sigaction(kSignals[i], nullptr, &actions_[i]);
    }
    KeptState(const KeptState&) = delete;
    KeptState& operator=(const KeptState&) = delete;
    ~KeptState() {
        ::clearenv();
        for (const std::string& e : environment_) {
            ::setenv(e.substr(0, e.find('=')).c_str(), e.c_str() + e.find('=') + 1, /*overwrite=*/1);
        }
        ::sched_setaffinity(0, sizeof cores_, &cores_);
        for (size_t i = 0; i < actions_.size(); ++i) ::sigaction(kSignals[i], &actions_[i], nullptr);
    }

  private:
    static constexpr std::array<int, 5> kSignals = {SIGINT, SIGTERM, SIGUSR1, SIGPIPE, SIGXFSZ};
    Words environment_;
    cpu_set_t cores_;
    std::array<struct sigaction, 5> actions_;
};

}  // namespace

ProcessResult trireme(const Words& words, const ProcessOptions& options) {
    if (!options.environment.empty() || options.signal_at_output != 0 || !options.signal_at_error.empty())
        return trireme_process(words, options);
    Words environment;
    for (char** e = environ; *e != nullptr; ++e) {
        if (!std::string(*e).starts_with("TRIREME_")) environment.emplace_back(*e);
    }
    const KeptState kept;
    const Redirected streams(options.input);
    const int status = run_program(words, environment);
    return {.status = status, .out = streams.text(STDOUT_FILENO), .err = streams.text(STDERR_FILENO)};
}

}  // namespace trireme::test
