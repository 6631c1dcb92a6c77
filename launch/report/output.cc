#include "launch/report/output.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/error.h"

namespace trireme {

bool TextOut::write(std::string_view text) {
    while (!text.empty() && !closed_) {
        const ssize_t n = ::write(fd_, text.data(), text.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EPIPE) {
            closed_ = true;
        } else if (n < 0) {
            fail(Exit::kIo, "stdout: cannot be written: {}", std::strerror(errno));
        } else {
            last_ = text[static_cast<size_t>(n) - 1];
            text.remove_prefix(static_cast<size_t>(n));
        }
    }
    return !closed_;
}

void probe_output(std::string_view flag, const std::string& path, bool force) {
    if (path.empty()) return;
    struct stat info = {};
    if (::lstat(path.c_str(), &info) == 0) {
        require(S_ISREG(info.st_mode), Exit::kCantCreate, "{} {}: exists and is no regular file; name another one",
                flag, path);
        require(force, Exit::kCantCreate, "{} {}: exists; name another file, or overwrite it with --force", flag, path);
    }
    const std::filesystem::path folder = std::filesystem::path(path).parent_path();
    std::string probe = ((folder.empty() ? "." : folder) / ".trireme-probe-XXXXXX").string();
    const int fd = std::filesystem::path(path).filename().empty() ? (errno = EISDIR, -1) : ::mkstemp(probe.data());
    if (fd < 0) {
        const Exit code = errno == EACCES || errno == EPERM ? Exit::kPermission : Exit::kCantCreate;
        fail(code, "{} {}: cannot be created: {}", flag, path, std::strerror(errno));
    }
    ::close(fd);
    ::unlink(probe.c_str());
}

}  // namespace trireme
