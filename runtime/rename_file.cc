#include "runtime/rename_file.h"

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "runtime/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Returns whether `error` means that the file system lacks a call, so that the next one is tried.
bool lacks(int error) {
    return error == EINVAL || error == ENOSYS || error == EPERM || error == EOPNOTSUPP || error == EMLINK;
}

}  // namespace

std::string reason_of(int error) {
    return std::generic_category().message(error);
}

Exit exit_of_creation(int error) {
    switch (error) {
        case EACCES:
        case EPERM:
        case EROFS:
            return Exit::kPermission;
        case ENOSPC:
        case EDQUOT:
        case EIO:
            return Exit::kIo;
        case EMFILE:
        case ENFILE:
        case ENOMEM:
            return Exit::kOs;
        default:
            return Exit::kCantCreate;
    }
}

void require_replaceable(const fs::path& path, IfThere old) {
    require(path.has_filename(), Exit::kCantCreate, "{}: not a file name", path.string());
    struct stat st {};
    const bool there = ::lstat(path.c_str(), &st) == 0;
    require(!there || S_ISREG(st.st_mode), Exit::kCantCreate, "{}: exists and is no regular file; nothing was written",
            path.string());
    require(!there || old == IfThere::kReplace, Exit::kCantCreate,
            "{}: exists; name another file, or force overwriting", path.string());
}

void cannot_create(const fs::path& path, int error) {
    require(
        error != EEXIST, Exit::kCantCreate,
        "{}: exists by now, though it did not when the work began: another run wrote it, and it stays as it is; name "
        "another file, or force overwriting",
        path.string());
    fail(exit_of_creation(error), "{}: cannot create: {}", path.string(), reason_of(error));
}

int rename_over(const fs::path& from, const fs::path& to) {
    return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int rename_if_free(const fs::path& from, const fs::path& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (!lacks(errno)) return errno;

    // NFS: link the file to the new name, then unlink the old one. If the server's reply was lost and the request
    // repeated, link() returns EEXIST although this file took the name. The file then has two names.
    int error = ::link(from.c_str(), to.c_str()) == 0 ? 0 : errno;
    struct stat st {};
    if (error == EEXIST && ::lstat(from.c_str(), &st) == 0 && st.st_nlink == 2) error = 0;
    if (error == 0) ::unlink(from.c_str());
    if (error == 0 || !lacks(error)) return error;

    // exFAT: create an empty file with the new name, then replace it. A crash in between leaves the empty file.
    const int claim = ::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (claim < 0) return errno;
    ::close(claim);
    error = rename_over(from, to);
    if (error != 0) ::unlink(to.c_str());
    return error;
}

bool has_name(int descriptor, const fs::path& path) {
    struct stat here {
    }, named{};
    return ::fstat(descriptor, &here) == 0 && ::lstat(path.c_str(), &named) == 0 && here.st_ino == named.st_ino &&
           here.st_dev == named.st_dev;
}

void sync_folder(const fs::path& path) {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int error = fd < 0 || ::fsync(fd) != 0 ? errno : 0;
    if (fd >= 0) ::close(fd);
    require(error == 0, Exit::kIo, "{}: cannot flush its folder to the disk: {}", path.string(), reason_of(error));
}

}  // namespace trireme
