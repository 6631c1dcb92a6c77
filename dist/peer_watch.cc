#include "dist/peer_watch.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

#include "runtime/error.h"

namespace trireme {
namespace {

/// Returns an id that changes with each start of the machine; "": unknown.
std::string boot_id() {
    std::array<char, 64> text{};
    const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : ::read(fd, text.data(), text.size());
    if (fd >= 0) ::close(fd);
    return n <= 1 ? "" : std::string(text.data(), static_cast<size_t>(n - 1));
}

/// Returns the id of the PID namespace, which differs between containers; "": unknown.
std::string pid_namespace() {
    std::array<char, 64> text{};
    const ssize_t n = ::readlink("/proc/self/ns/pid", text.data(), text.size());
    return n <= 0 ? "" : std::string(text.data(), static_cast<size_t>(n));
}

/// Returns the machine and the PID in a process's name; the machine is "" if unknown.
std::pair<std::string, pid_t> parts_of(const std::string& name) {
    const size_t space = name.find(' ');
    pid_t pid = 0;
    if (space == 0 || space == std::string::npos) return {};
    std::from_chars(name.data() + space + 1, name.data() + name.size(), pid);
    return {name.substr(0, space), pid};
}

}  // namespace

std::string process_name() {
    const std::string boot = boot_id(), space = pid_namespace();
    return fmt::format("{} {}", boot.empty() || space.empty() ? "" : boot + space, ::getpid());
}

pid_t first_of_one_machine(const std::vector<std::string>& names) {
    const auto first = parts_of(names.front());
    const auto beside = [&](const std::string& name) { return parts_of(name).first == first.first; };
    return !first.first.empty() && std::ranges::all_of(names, beside) ? first.second : 0;
}

PeerWatch::PeerWatch(const std::vector<std::string>& names, Gone gone)
    : gone_(std::move(gone)), stop_(::eventfd(0, EFD_CLOEXEC)) {
    require(stop_ >= 0, Exit::kOs, "no descriptor is left for an eventfd: raise ulimit -n");
    for (size_t rank = 0; rank < names.size(); ++rank) watch(names[rank], static_cast<int>(rank));
    thread_ = std::thread([this] { run(); });
}

void PeerWatch::watch(const std::string& name, int rank) {
    const auto [machine, pid] = parts_of(name);
    if (machine.empty() || machine != parts_of(process_name()).first || pid == ::getpid()) return;
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (fd >= 0 || errno == ESRCH) peers_.push_back({rank, fd});
}

PeerWatch::~PeerWatch() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(stop_, &one, sizeof one);
    thread_.join();
    for (const Peer& peer : peers_) {
        if (peer.descriptor >= 0) ::close(peer.descriptor);
    }
    ::close(stop_);
}

void PeerWatch::run() const {
    std::vector<pollfd> all = {{stop_, POLLIN, 0}};
    for (const Peer& peer : peers_) {
        if (peer.descriptor < 0) return gone_(peer.rank);  // it had ended before the watch began
        all.push_back({peer.descriptor, POLLIN, 0});
    }
    while (::poll(all.data(), all.size(), -1) < 0 && errno == EINTR) {
    }
    if (all[0].revents != 0) return;
    for (size_t i = 1; i < all.size(); ++i) {
        if (all[i].revents != 0) return gone_(peers_[i - 1].rank);
    }
}

}  // namespace trireme
