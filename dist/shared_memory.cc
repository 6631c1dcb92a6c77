#include "dist/shared_memory.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

#include "dist/comm.h"
#include "dist/peer_watch.h"

namespace trireme {
namespace {

constexpr size_t kPage = 4096;  // the smallest page size

struct Descriptor {
    int fd = -1;
    Descriptor() = default;
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

void require_os(bool condition, const char* call, int error) {
    require(condition, Exit::kOs, "{}: {}", call, std::generic_category().message(error));
}

/// Returns the results of `work` on all ranks. If it throws on one, all ranks throw the same error, and none waits.
std::vector<std::string> together(const SharedMemory::Gather& gather, const std::function<std::string()>& work) {
    std::string mine;
    try {
        mine = '+' + work();
    } catch (const Error& e) {
        mine = std::string("-") + e.what();
    }
    std::vector<std::string> all = gather(mine);
    for (std::string& s : all) {
        const bool failed = s.empty() || s[0] != '+';
        s.erase(0, 1);
        if (failed) throw AgreedError(Exit::kOs, s);
    }
    return all;
}

int create(size_t bytes) {
    const int fd = ::memfd_create("trireme", MFD_CLOEXEC);
    require_os(fd >= 0, "memfd_create", errno);
    if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
        const int error = errno;
        ::close(fd);
        require_os(false, "ftruncate", error);
    }
    return fd;
}

/// Allocates pages on the rank that writes them: they are on its NUMA node, and a lack of memory is detected now.
void allocate(int fd, size_t begin, size_t bytes) {
    int error = 0;
    do {
        error = ::posix_fallocate(fd, static_cast<off_t>(begin), static_cast<off_t>(bytes));
    } while (error == EINTR);
    require_os(error == 0, "posix_fallocate", error);
}

}  // namespace

void SharedMemory::Unmap::operator()(std::byte* data) const {
    ::munmap(data, bytes);
}

SharedMemory::SharedMemory(int rank, const std::vector<std::string>& names, size_t bytes_each, const Gather& gather,
                           const std::function<void()>& wanted)
    : data_(nullptr, Unmap{names.size() * bytes_each}) {
    const size_t bytes = names.size() * bytes_each;
    const pid_t first = first_of_one_machine(names);
    if (first == 0) throw AgreedError(Exit::kOs, "not all ranks are on one machine");

    Descriptor own;
    const std::vector<std::string> offered = together(gather, [&] {
        wanted();
        if (rank == 0) own.fd = create(bytes);
        return std::to_string(own.fd);
    });
    together(gather, [&] {
        if (rank != 0) {
            own.fd = ::open(fmt::format("/proc/{}/fd/{}", first, offered[0]).c_str(), O_RDWR | O_CLOEXEC);
            require_os(own.fd >= 0, "open of rank 0's memory", errno);
        }
        allocate(own.fd, static_cast<size_t>(rank) * bytes_each, bytes_each);
        void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own.fd, 0);
        require_os(data != MAP_FAILED, "mmap", errno);
        data_.reset(static_cast<std::byte*>(data));
        return std::string();
    });
    // All pages exist: enter them into this process's page table now, so that no sum has to.
    for (size_t at = 0; at < bytes; at += kPage) static_cast<void>(*static_cast<volatile std::byte*>(data_.get() + at));
}

}  // namespace trireme
