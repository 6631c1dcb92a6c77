#include "runtime/atomic_file.h"

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "runtime/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) {
    return std::generic_category().message(error);
}

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }
    /// Errors of delayed writes may appear here for the first time.
    int close() { return ::close(std::exchange(fd_, -1)); }

  private:
    int fd_;
};

/// Removes the temporary file unless it got its name.
class Temporary {
  public:
    explicit Temporary(fs::path path) : path_(std::move(path)) {}
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary() {
        if (!kept_) ::unlink(path_.c_str());
    }
    void keep() { kept_ = true; }

  private:
    fs::path path_;
    bool kept_ = false;
};

[[noreturn]] void cannot_create(const fs::path& path, int error) {
    const bool denied = error == EACCES || error == EPERM || error == EROFS;
    fail(denied                                               ? Exit::kPermission
         : error == ENOSPC || error == EDQUOT || error == EIO ? Exit::kIo
                                                              : Exit::kCantCreate,
         "{}: cannot create: {}", path.string(), reason(error));
}

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        require(n > 0, Exit::kIo, "{}: cannot write {} bytes: {}; an older file is as it was", path.string(),
                bytes.size(), reason(n < 0 ? errno : ENOSPC));
        bytes = bytes.subspan(static_cast<size_t>(n));
    }
}

}  // namespace

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes) {
    require(path.has_filename(), Exit::kCantCreate, "{}: not a file name", path.string());
    struct stat st {};
    require(::lstat(path.c_str(), &st) != 0 || S_ISREG(st.st_mode), Exit::kCantCreate,
            "{}: exists and is no regular file; nothing was written", path.string());

    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    const Descriptor folder_fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder_fd.get() < 0) cannot_create(path, errno);

    // The name is this process's own. Left by a killed predecessor of the same number, it is in the way once.
    const fs::path name = folder / fmt::format(".{}.{}.tmp", path.filename().string(), ::getpid());
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = ::open(name.c_str(), kFlags, 0666);
    if (fd < 0 && errno == EEXIST && ::unlink(name.c_str()) == 0) fd = ::open(name.c_str(), kFlags, 0666);
    if (fd < 0) cannot_create(path, errno);
    Descriptor file(fd);
    Temporary temporary(name);

    write_all(file.get(), bytes, path);
    // A failed fsync is final: the kernel may have dropped the pages, and a second one would lie.
    require(::fsync(file.get()) == 0, Exit::kIo, "{}: cannot flush to the disk: {}", path.string(), reason(errno));
    require(file.close() == 0, Exit::kIo, "{}: cannot close: {}", path.string(), reason(errno));
    if (::rename(name.c_str(), path.c_str()) != 0) cannot_create(path, errno);
    temporary.keep();
    require(::fsync(folder_fd.get()) == 0, Exit::kIo, "{}: cannot flush its folder to the disk: {}", path.string(),
            reason(errno));
}

}  // namespace trireme
