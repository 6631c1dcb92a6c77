#include "runtime/part_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "runtime/error.h"
#include "runtime/rename_file.h"

namespace trireme {

namespace fs = std::filesystem;

PartFile::PartFile(fs::path path, IfThere old) : path_(std::move(path)), old_(old) {
    require_replaceable(path_, old);
    part_ = path_.parent_path() / ("." + path_.filename().string() + ".trireme-part");
    try {
        while (!try_to_take()) {
        }
    } catch (...) {
        if (fd_ >= 0) ::close(fd_);
        throw;
    }
    if (::ftruncate(fd_, 0) == 0) return;
    const int error = errno;
    ::unlink(part_.c_str());
    ::close(fd_);
    fail(Exit::kIo, "{}: cannot be emptied: {}", part_.string(), reason_of(error));
}

PartFile::~PartFile() {
    if (!published_) ::unlink(part_.c_str());
    if (fd_ >= 0) ::close(fd_);
}

/// Makes the part, or finds it, and locks it. False: it has gone, or was replaced, before it was locked.
bool PartFile::try_to_take() {
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd_ < 0) cannot_create(path_, errno);
    int error = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    require(error != EWOULDBLOCK, Exit::kCantCreate,
            "{}: another run is writing it; wait for that, or name another file", path_.string());
    struct stat here {};
    // Without locks (some network file systems) nobody can tell whether it is being written.
    const int unlocked = error;
    error = ::fstat(fd_, &here) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: {}", part_.string(), reason_of(error));
    require(unlocked == 0 || here.st_size == 0, Exit::kCantCreate,
            "{}: is there and cannot be locked: {}; if no run is writing it, remove it", part_.string(),
            reason_of(unlocked));
    if (has_name(fd_, part_)) return true;
    ::close(std::exchange(fd_, -1));
    return false;
}

void PartFile::reserve(uint64_t bytes) {
    int error = EINTR;  // a signal may come, and is no failure
    while (error == EINTR) error = bytes == 0 ? 0 : ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
    // A file system that cannot reserve finds out as it writes.
    require(error == 0 || error == EOPNOTSUPP || error == EINVAL, Exit::kIo, "{}: no room for {:.1f} MB: {}",
            path_.string(), static_cast<double>(bytes) / 1e6, reason_of(error));
}

void PartFile::write(uint64_t offset, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        const int error = n < 0 ? errno : ENOSPC;
        require(n > 0, Exit::kIo, "{}: cannot write {} bytes: {}; an older file is as it was", path_.string(),
                bytes.size(), reason_of(error));
        bytes = bytes.subspan(static_cast<size_t>(n));
        offset += static_cast<uint64_t>(n);
    }
}

void PartFile::publish() {
    // A failed fsync is final: the kernel may have dropped the pages, and a second one would lie.
    int error = ::fsync(fd_) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: cannot flush to the disk: {}", path_.string(), reason_of(error));
    error = old_ == IfThere::kRefuse ? rename_if_free(part_, path_) : rename_over(part_, path_);
    if (error != 0) cannot_create(path_, error);
    published_ = true;
    // The lock goes here: nobody can take the part's name for this file any more.
    error = ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: cannot close: {}", path_.string(), reason_of(error));
    sync_folder(path_);
}

}  // namespace trireme
