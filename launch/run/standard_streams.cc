#include "launch/run/standard_streams.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "runtime/error.h"

namespace trireme {

void hold_standard_streams() {
    // In rising order: open() gives the lowest number that is free. Each is opened for what it is not used for, but
    // stderr: who has closed it wants to hear nothing.
    constexpr int kWrongWay[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        require(::open("/dev/null", kWrongWay[fd]) == fd, Exit::kOs,
                "descriptor {} is closed, and /dev/null cannot be opened in its place: {}", fd, std::strerror(errno));
    }
}

void require_stdout() {
    const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
    require(flags >= 0 && (flags & O_ACCMODE) != O_RDONLY, Exit::kIo,
            "stdout: is closed, or not open for writing; let it go to a file, a pipe or /dev/null");
}

}  // namespace trireme
