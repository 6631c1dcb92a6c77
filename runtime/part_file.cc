#include "runtime/part_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/rename_file.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSomebody = "another process";
constexpr size_t kMostOfCommand = 200;

fs::path part_of(const fs::path& path) {
    return path.parent_path() / ("." + path.filename().string() + ".trireme-part");
}

}  // namespace

PartFile::PartFile(fs::path path, IfThere old, Unlocked) : path_(std::move(path)), part_(part_of(path_)), old_(old) {
    require_replaceable(path_, old);
}

PartFile::PartFile(fs::path path, IfThere old) : PartFile(std::move(path), old, Unlocked()) {
    require(take(), Exit::kCantCreate, "{}: {} is writing it; wait for that, or name another file", path_.string(),
            holder(path_));
}

std::unique_ptr<PartFile> PartFile::unless_held(fs::path path, IfThere old) {
    std::unique_ptr<PartFile> file(new PartFile(std::move(path), old, Unlocked()));
    return file->take() ? std::move(file) : nullptr;
}

PartFile::~PartFile() {
    if (fd_ < 0) return;
    if (!published_) ::unlink(part_.c_str());
    ::close(fd_);
}

bool PartFile::take() {
    try {
        Lock lock = Lock::kReplaced;
        while (lock == Lock::kReplaced) lock = try_to_take();
        if (lock == Lock::kTaken) {
            if (::ftruncate(fd_, 0) == 0) return true;
            const int error = errno;
            ::unlink(part_.c_str());
            fail(Exit::kIo, "{}: cannot be emptied: {}", part_.string(), reason_of(error));
        }
    } catch (...) {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
        throw;
    }
    ::close(std::exchange(fd_, -1));
    return false;
}

std::string PartFile::holder(const fs::path& path) {
    struct stat st {};
    std::ifstream locks("/proc/locks");
    if (::stat(part_of(path).c_str(), &st) != 0) return kSomebody;
    // "1: FLOCK  ADVISORY  WRITE 123 fe:01:4711 0 EOF"
    const std::string file = fmt::format("{:02x}:{:02x}:{}", major(st.st_dev), minor(st.st_dev), st.st_ino);
    for (std::string line; std::getline(locks, line);) {
        std::istringstream words(line);
        std::string number, kind, how, access, process, where;
        words >> number >> kind >> how >> access >> process >> where;
        if (kind != "FLOCK" || where != file || process.find_first_not_of("0123456789") != std::string::npos) continue;
        std::ifstream command("/proc/" + process + "/cmdline");
        std::string text((std::istreambuf_iterator<char>(command)), {});
        while (text.ends_with('\0')) text.pop_back();
        std::ranges::replace(text, '\0', ' ');
        return fmt::format("process {}{}", process, text.empty() ? "" : " (" + text.substr(0, kMostOfCommand) + ")");
    }
    return kSomebody;
}

/// Creates or opens the part and locks it. kReplaced: the part was removed or replaced before it was locked.
PartFile::Lock PartFile::try_to_take() {
    fd_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd_ < 0) cannot_create(path_, errno);
    int error = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error == EWOULDBLOCK) return Lock::kHeld;
    struct stat here {};
    // Without locks (some network file systems) it is unknown whether another process is writing the part.
    const int unlocked = error;
    error = ::fstat(fd_, &here) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: {}", part_.string(), reason_of(error));
    require(unlocked == 0 || here.st_size == 0, Exit::kCantCreate,
            "{}: exists and cannot be locked: {}; if no run is writing it, remove it", part_.string(),
            reason_of(unlocked));
    if (has_name(fd_, part_)) return Lock::kTaken;
    ::close(std::exchange(fd_, -1));
    return Lock::kReplaced;
}

void PartFile::reserve(uint64_t bytes) {
    int error = EINTR;  // a signal is no failure
    while (error == EINTR) error = bytes == 0 ? 0 : ::posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
    // A file system that cannot reserve space detects a full disk while it writes.
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
        bytes = bytes.subspan(index(n));
        offset += static_cast<uint64_t>(n);
    }
}

void PartFile::publish() {
    // A failed fsync is final: the kernel may have dropped the pages, and a second fsync would report success.
    int error = ::fsync(fd_) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: cannot flush to the disk: {}", path_.string(), reason_of(error));
    error = old_ == IfThere::kRefuse ? rename_if_free(part_, path_) : rename_over(part_, path_);
    if (error != 0) cannot_create(path_, error);
    published_ = true;
    // This releases the lock; the part's name no longer refers to this file.
    error = ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: cannot close: {}", path_.string(), reason_of(error));
    sync_folder(path_);
}

}  // namespace trireme
