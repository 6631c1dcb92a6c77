#include "runtime/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <string>
#include <sys/random.h>
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
    require(
        error != EEXIST, Exit::kCantCreate,
        "{}: exists by now, though it did not when the work began: another run wrote it, and it stays as it is; name "
        "another file, or overwrite it with --force",
        path.string());
    const bool denied = error == EACCES || error == EPERM || error == EROFS;
    fail(denied                                               ? Exit::kPermission
         : error == ENOSPC || error == EDQUOT || error == EIO ? Exit::kIo
                                                              : Exit::kCantCreate,
         "{}: cannot create: {}", path.string(), reason(error));
}

/// A name that no other process chooses: their numbers may be the same, on two nodes or in two containers.
fs::path temporary_name(const fs::path& folder) {
    uint64_t number = 0;
    require(::getrandom(&number, sizeof number, 0) == sizeof number, Exit::kOs, "getrandom: {}", reason(errno));
    return folder / fmt::format(".trireme-{:016x}.tmp", number);
}

/// The calls below are for a file system that lacks the one before.
bool lacks(int error) {
    return error == EINVAL || error == ENOSYS || error == EPERM || error == EOPNOTSUPP || error == EMLINK;
}

/// 0, or errno.
int rename_over(const fs::path& from, const fs::path& to) {
    return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

/// Gives the finished file at `from` the name `to`, if that is free, in one step: nobody else can take the name
/// meanwhile. 0, or errno: EEXIST where it is taken.
int publish(const fs::path& from, const fs::path& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (!lacks(errno)) return errno;

    // NFS: the file gets a second name and loses its first one. Where the server's answer was lost and it was asked
    // again, it says EEXIST though it was this file that took the name: the file has two names then.
    int error = ::link(from.c_str(), to.c_str()) == 0 ? 0 : errno;
    struct stat st {};
    if (error == EEXIST && ::lstat(from.c_str(), &st) == 0 && st.st_nlink == 2) error = 0;
    if (error == 0) ::unlink(from.c_str());
    if (error == 0 || !lacks(error)) return error;

    // exFAT: an empty file takes the name, and is replaced. A crash in between leaves it behind.
    const Descriptor claim(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (claim.get() < 0) return errno;
    error = rename_over(from, to);
    if (error != 0) ::unlink(to.c_str());
    return error;
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

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes, IfThere old) {
    require(path.has_filename(), Exit::kCantCreate, "{}: not a file name", path.string());
    struct stat st {};
    require(::lstat(path.c_str(), &st) != 0 || S_ISREG(st.st_mode), Exit::kCantCreate,
            "{}: exists and is no regular file; nothing was written", path.string());

    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    const Descriptor folder_fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder_fd.get() < 0) cannot_create(path, errno);

    const fs::path name = temporary_name(folder);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) cannot_create(path, errno);
    Descriptor file(fd);
    Temporary temporary(name);

    write_all(file.get(), bytes, path);
    // A failed fsync is final: the kernel may have dropped the pages, and a second one would lie.
    require(::fsync(file.get()) == 0, Exit::kIo, "{}: cannot flush to the disk: {}", path.string(), reason(errno));
    require(file.close() == 0, Exit::kIo, "{}: cannot close: {}", path.string(), reason(errno));
    const int error = old == IfThere::kRefuse ? publish(name, path) : rename_over(name, path);
    if (error != 0) cannot_create(path, error);
    temporary.keep();
    require(::fsync(folder_fd.get()) == 0, Exit::kIo, "{}: cannot flush its folder to the disk: {}", path.string(),
            reason(errno));
}

}  // namespace trireme
