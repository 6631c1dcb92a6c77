#include "launch/run/chat/line_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "launch/run/python_script.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

std::string last_error() {
    return std::generic_category().message(errno);
}

/// Waits for `events` of a file. Returns false at the deadline.
bool wait_for(int file, short events, Clock::time_point deadline) {
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) return false;
        pollfd poll = {.fd = file, .events = events, .revents = 0};
        const int ready = ::poll(&poll, 1, static_cast<int>(std::min<int64_t>(left, 60000)));
        if (ready > 0) return true;
        require(ready == 0 || errno == EINTR, Exit::kOs, "poll: {}", last_error());
    }
}

}  // namespace

LineProcess::LineProcess(std::vector<std::string> words) {
    std::array<int, 2> talk = {-1, -1}, errors = {-1, -1};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk.data()) == 0, Exit::kOs, "socketpair: {}",
            last_error());
    talk_ = talk[0];
    const bool piped = ::pipe2(errors.data(), O_CLOEXEC) == 0;
    errors_ = errors[0];
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    for (const auto& [from, to] : {std::pair{talk[1], 0}, {talk[1], 1}, {errors[1], 2}}) {
        posix_spawn_file_actions_adddup2(&files, from, to);
    }
    // In a process group of its own, so that Ctrl-C in a terminal does not reach it.
    posix_spawnattr_t own_group;
    posix_spawnattr_init(&own_group);
    posix_spawnattr_setflags(&own_group, POSIX_SPAWN_SETPGROUP);
    const int error = piped ? ::posix_spawnp(&child_, argv[0], &files, &own_group, argv.data(), environ) : errno;
    posix_spawnattr_destroy(&own_group);
    posix_spawn_file_actions_destroy(&files);
    ::close(talk[1]);
    if (errors[1] >= 0) ::close(errors[1]);
    if (error == 0) return;
    child_ = -1;
    kill();
    fail(Exit::kUnavailable, "{}", no_python(words[0], error));
}

LineProcess::~LineProcess() {
    kill();
}

void LineProcess::kill() {
    if (child_ > 0) {
        ::kill(child_, SIGKILL);
        while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
    child_ = -1;
    for (int* file : {&talk_, &errors_}) {
        if (*file >= 0) ::close(*file);
        *file = -1;
    }
}

/// Returns the last line of stderr, of a process that has ended.
std::string LineProcess::last_words() {
    std::string all;
    std::array<char, 4096> bytes = {};
    for (ssize_t n = 0; (n = ::read(errors_, bytes.data(), bytes.size())) > 0;) {
        all.append(bytes.data(), static_cast<size_t>(n));
        if (all.size() > 2 * bytes.size()) all.erase(0, all.size() - bytes.size());
    }
    while (!all.empty() && all.back() == '\n') all.pop_back();
    return all.substr(all.rfind('\n') + 1);
}

LineProcess::Answer LineProcess::ask(std::string line, std::chrono::milliseconds most) {
    check(child_ > 0, "a process that has ended is asked");
    const Clock::time_point deadline = Clock::now() + most;
    line += '\n';
    const auto ended = [&] {
        ::kill(child_, SIGKILL);  // it may have closed its output only
        Answer answer = {End::kEnded, last_words()};
        kill();
        return answer;
    };
    const auto timeout = [&] {
        kill();
        return Answer{End::kTimeout, {}};
    };
    for (std::string_view left = line; !left.empty();) {
        if (!wait_for(talk_, POLLOUT, deadline)) return timeout();
        const ssize_t n = ::send(talk_, left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n < 0) return ended();
        left.remove_prefix(static_cast<size_t>(n));
    }
    std::array<char, 1 << 16> bytes = {};
    for (size_t searched = 0;;) {
        if (const size_t end = read_.find('\n', searched); end != std::string::npos) {
            Answer answer = {End::kAnswered, read_.substr(0, end)};
            read_.erase(0, end + 1);
            return answer;
        }
        searched = read_.size();
        if (!wait_for(talk_, POLLIN, deadline)) return timeout();
        const ssize_t n = ::recv(talk_, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n <= 0) return ended();
        read_.append(bytes.data(), static_cast<size_t>(n));
    }
}

}  // namespace trireme
