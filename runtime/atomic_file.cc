#include "runtime/atomic_file.h"

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "runtime/error.h"
#include "runtime/rename_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

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

/// A name that no other process chooses: their numbers may be the same, on two nodes or in two containers.
fs::path temporary_name(const fs::path& folder) {
    uint64_t number = 0;
    require(::getrandom(&number, sizeof number, 0) == sizeof number, Exit::kOs, "getrandom: {}", reason_of(errno));
    return folder / fmt::format(".trireme-{:016x}.tmp", number);
}

void write_all(int fd, std::span<const std::byte> bytes, const fs::path& path) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        require(n > 0, Exit::kIo, "{}: cannot write {} bytes: {}; an older file is as it was", path.string(),
                bytes.size(), reason_of(n < 0 ? errno : ENOSPC));
        bytes = bytes.subspan(static_cast<size_t>(n));
    }
}

}  // namespace

void write_file_atomically(const fs::path& path, std::span<const std::byte> bytes, IfThere old) {
    require_replaceable(path, IfThere::kReplace);  // whether it may be is seen when it gets its name
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
    require(::fsync(file.get()) == 0, Exit::kIo, "{}: cannot flush to the disk: {}", path.string(), reason_of(errno));
    require(file.close() == 0, Exit::kIo, "{}: cannot close: {}", path.string(), reason_of(errno));
    const int error = old == IfThere::kRefuse ? rename_if_free(name, path) : rename_over(name, path);
    if (error != 0) cannot_create(path, error);
    temporary.keep();
    require(::fsync(folder_fd.get()) == 0, Exit::kIo, "{}: cannot flush its folder to the disk: {}", path.string(),
            reason_of(errno));
}

}  // namespace trireme
