#include "launch/run/standard_streams.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "runtime/error.h"

namespace trireme {

void hold_standard_streams() {
    // In ascending order, since open() returns the lowest free number. stdin is opened for writing and stdout for
    // reading, so that their use fails. stderr is opened for writing: a user who closes it does not expect messages.
    constexpr int kWrongWay[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
        if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        const int error = ::open("/dev/null", kWrongWay[fd]) == fd ? 0 : errno;
        require(error == 0, Exit::kOs, "descriptor {} is closed, and /dev/null cannot be opened in its place: {}", fd,
                std::strerror(error));
    }
}

void require_stdout() {
    const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
    require(flags >= 0 && (flags & O_ACCMODE) != O_RDONLY, Exit::kIo,
            "stdout: is closed, or not open for writing; redirect it to a file, a pipe or /dev/null");
}

}  // namespace trireme
