#include "launch/flags/text_file.h"

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

/// Waits up to kPatience until read() would not block (data, the end, or an error). Returns whether that is so. Files
/// other than pipes are always ready.
bool ready(int fd) {
    constexpr int kPatience = 100;  // ms
    pollfd p = {fd, POLLIN, 0};
    const int found = ::poll(&p, 1, kPatience);
    return found > 0 || (found < 0 && errno != EINTR);
}

int open_to_read(const std::string& path) {
    // Without O_NONBLOCK this would block until a pipe's other end is opened, and would not call `waiting`.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) fail(code_of(errno), "{}: cannot be opened: {}", path, std::strerror(errno));
    return fd;
}

/// Calls `take` with all available input, block by block, until it returns false.
void read_blocks(int fd, const std::string& what, const std::function<void()>& waiting,
                 const std::function<bool(std::string_view)>& take) {
    char block[1 << 16];
    for (;;) {
        if (waiting) waiting();
        if (!ready(fd)) continue;
        const ssize_t n = ::read(fd, block, sizeof block);
        if (n == 0) return;
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        require(n >= 0 || errno != EBADF, Exit::kIo, "{}: is closed, or not open for reading; name a file instead of -",
                what);
        if (n < 0) fail(code_of(errno), "{}: cannot be read: {}", what, std::strerror(errno));
        if (!take({block, static_cast<size_t>(n)})) return;
    }
}

/// Like the above, for a path; "-" is stdin.
void read_blocks(const std::string& path, const std::function<void()>& waiting,
                 const std::function<bool(std::string_view)>& take) {
    if (path == "-") return read_blocks(STDIN_FILENO, "stdin", waiting, take);
    const Descriptor file(open_to_read(path));
    read_blocks(file.get(), path, waiting, take);
}

std::string read_all(int fd, const std::string& what, size_t limit, const std::function<void()>& waiting) {
    std::string text;
    read_blocks(fd, what, waiting, [&](std::string_view block) {
        text += block;
        require(text.size() <= limit, Exit::kData, "{}: more than {} bytes; that is no text for this", what, limit);
        return true;
    });
    return text;
}

std::string read_file(const std::string& path, size_t limit, const std::function<void()>& waiting) {
    const Descriptor file(open_to_read(path));
    return read_all(file.get(), path, limit, waiting);
}

/// The line without a "\r" at its end and, in a file's first line, without the byte-order mark that some editors write;
/// empty for a blank line.
std::string_view content_of(std::string_view line, int64_t number) {
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    if (number == 1 && line.starts_with(kMark)) line.remove_prefix(kMark.size());
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line.find_first_not_of(" \t\r") == std::string_view::npos ? std::string_view() : line;
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
        const std::string_view line = content_of(text.substr(from, end - from), number);
        from = end + 1;
        if (!line.empty()) visit(line, number);
    }
}

void for_lines_of(const std::string& path, size_t longest, const std::function<void()>& waiting,
                  const std::function<bool(std::string_view line, int64_t number)>& visit) {
    std::string left;  // a line whose end is not read yet
    int64_t number = 1;
    bool more = true;
    const auto take = [&](std::string_view line) {
        const std::string_view content = content_of(line, number);
        if (!content.empty()) more = visit(content, number);
        ++number;
    };
    read_blocks(path, waiting, [&](std::string_view block) {
        for (size_t end = block.find('\n'); more && end != std::string_view::npos; end = block.find('\n')) {
            left += block.substr(0, end);
            block.remove_prefix(end + 1);
            take(left);
            left.clear();
        }
        left += block;
        require(left.size() <= longest, Exit::kData, "{}:{}: more than {} bytes; that is no text for this", path,
                number, longest);
        return more;
    });
    if (more && !left.empty()) take(left);
}

}  // namespace trireme
