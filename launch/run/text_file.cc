#include "launch/run/text_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "runtime/error.h"

namespace trireme {
namespace {

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { ::close(fd_); }
    int get() const { return fd_; }

  private:
    int fd_;
};

Exit code_of(int error) {
    switch (error) {
        case ENOENT:
        case ENOTDIR:
        case EISDIR:
        case ENAMETOOLONG:
            return Exit::kNoInput;
        case EACCES:
        case EPERM:
            return Exit::kPermission;
        case EMFILE:
        case ENFILE:
            return Exit::kOs;
        default:
            return Exit::kIo;
    }
}

/// Waits for up to kPatience until read() would not block (data, the end, or an error), and returns whether that is so.
/// What is not a pipe is always ready.
bool ready(int fd) {
    constexpr int kPatience = 100;  // ms
    pollfd p = {fd, POLLIN, 0};
    const int found = ::poll(&p, 1, kPatience);
    return found > 0 || (found < 0 && errno != EINTR);
}

std::string read_all(int fd, const std::string& what, size_t limit, const std::function<void()>& waiting) {
    std::string text;
    char block[1 << 16];
    for (;;) {
        if (waiting) waiting();
        if (!ready(fd)) continue;
        const ssize_t n = ::read(fd, block, sizeof block);
        if (n == 0) return text;
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        require(n >= 0 || errno != EBADF, Exit::kIo, "{}: is closed, or not open for reading; name a file instead of -",
                what);
        if (n < 0) fail(code_of(errno), "{}: cannot be read: {}", what, std::strerror(errno));
        text.append(block, static_cast<size_t>(n));
        require(text.size() <= limit, Exit::kData, "{}: more than {} bytes; that is no text for this", what, limit);
    }
}

std::string read_file(const std::string& path, size_t limit, const std::function<void()>& waiting) {
    // Without O_NONBLOCK this would block until somebody opens a pipe's other end, without calling `waiting` meanwhile.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) fail(code_of(errno), "{}: cannot be opened: {}", path, std::strerror(errno));
    const Descriptor file(fd);
    return read_all(file.get(), path, limit, waiting);
}

}  // namespace

std::string read_text_file(const std::string& path, size_t limit) {
    return read_file(path, limit, {});
}

std::string read_text_file_or_stdin(const std::string& path, size_t limit, const std::function<void()>& waiting) {
    return path == "-" ? read_all(STDIN_FILENO, "stdin", limit, waiting) : read_file(path, limit, waiting);
}

void for_lines(std::string_view text, const std::function<void(std::string_view line, int64_t number)>& visit) {
    int64_t number = 1;
    for (size_t from = 0; from < text.size(); ++number) {
        const size_t end = std::min(text.find('\n', from), text.size());
        std::string_view line = text.substr(from, end - from);
        from = end + 1;
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (line.find_first_not_of(" \t\r") != std::string_view::npos) visit(line, number);
    }
}

}  // namespace trireme
