#include "model/files/new_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/rename_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
    std::error_code ignored;
    return fs::exists(fs::symlink_status(path, ignored));
}

/// Returns 0 or errno: EEXIST if the name is taken.
int rename_folder_if_free(const fs::path& from, const fs::path& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
    // This file system cannot do it in one step (NFS). An empty folder that appears in the meantime is replaced.
    if (is_there(to)) return EEXIST;
    return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

NewFile::NewFile(const fs::path& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)) {
    if (fd_ < 0) cannot_create(path, errno);
}

NewFile::~NewFile() {
    if (fd_ >= 0) ::close(fd_);
}

void NewFile::write(const void* bytes, size_t n) {
    for (const char* at = static_cast<const char*>(bytes); n > 0;) {
        const ssize_t some = ::write(fd_, at, n);
        if (some < 0 && errno == EINTR) continue;
        const int error = some < 0 ? errno : ENOSPC;
        require(some > 0, Exit::kIo, "{}: cannot be written: {}", path_.string(), reason_of(error));
        at += some;
        n -= static_cast<size_t>(some);
    }
}

void NewFile::finish() {
    int error = ::fsync(fd_) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: cannot flush to the disk: {}", path_.string(), reason_of(error));
    error = ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: cannot close: {}", path_.string(), reason_of(error));
}

NewFolder::NewFolder(const fs::path& path, std::span<const char* const> names)
    : path_(path.has_filename() ? path : path.parent_path()),
      part_(path_.string() + ".trireme-part"),
      names_(names.begin(), names.end()) {
    require(!is_there(path_), Exit::kCantCreate, "{}: exists; name another folder, or remove it", path_.string());
    try {
        take();
        clear();
    } catch (...) {
        if (fd_ >= 0) ::close(fd_);
        throw;
    }
}

NewFolder::~NewFolder() {
    if (!done_) {
        for (const std::string& name : names_) ::unlinkat(fd_, name.c_str(), 0);
        ::rmdir(part_.c_str());
    }
    ::close(fd_);
}

void NewFolder::take() {
    while (!try_to_take()) {
    }
}

/// Makes or finds the part and locks it. Returns false if it was removed or replaced before it was locked.
bool NewFolder::try_to_take() {
    int error = ::mkdir(part_.c_str(), 0777) == 0 ? 0 : errno;
    if (error != 0 && error != EEXIST) cannot_create(part_, error);
    fd_ = ::open(part_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    error = fd_ >= 0 ? 0 : errno;
    if (error == ENOENT) return false;
    require(error == 0, Exit::kCantCreate, "{}: exists and cannot be opened as a folder: {}; remove it", part_.string(),
            reason_of(error));
    error = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    require(error != EWOULDBLOCK, Exit::kCantCreate,
            "{}: another conversion is writing it; wait for that, or name "
            "another folder",
            part_.string());
    // Without locks (NFS has none for folders), a part that is being written cannot be recognised.
    require(error == 0 || leftovers().empty(), Exit::kCantCreate,
            "{}: exists and cannot be locked: {}; if no conversion is writing it, remove it", part_.string(),
            reason_of(error));
    if (has_name(fd_, part_)) return true;
    ::close(std::exchange(fd_, -1));
    return false;
}

std::vector<std::string> NewFolder::leftovers() const {
    std::vector<std::string> all;
    for (const fs::directory_entry& entry : fs::directory_iterator(part_)) all.push_back(entry.path().filename());
    return all;
}

/// Removes the files that a killed process left, unless there are others.
void NewFolder::clear() const {
    const std::vector<std::string> left = leftovers();
    for (const std::string& name : left) {
        struct stat st {};
        require(std::ranges::find(names_, name) != names_.end() &&
                    ::fstatat(fd_, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode),
                Exit::kCantCreate,
                "{}: exists and holds '{}', which no conversion has written; remove it, or name "
                "another folder",
                part_.string(), shown(name));
    }
    for (const std::string& name : left) {
        const int error = ::unlinkat(fd_, name.c_str(), 0) == 0 ? 0 : errno;
        require(error == 0, Exit::kCantCreate, "{}: cannot be removed: {}", (part_ / name).string(), reason_of(error));
    }
}

void NewFolder::finish() {
    sync_folder(part_ / "");
    const int error = rename_folder_if_free(part_, path_);
    require(error != EEXIST, Exit::kCantCreate, "{}: cannot be made: it has appeared meanwhile", path_.string());
    if (error != 0) cannot_create(path_, error);
    done_ = true;
    sync_folder(path_);
}

}  // namespace trireme
