#include "runtime/unnamed_file.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/rename_file.h"

namespace trireme {

namespace fs = std::filesystem;

UnnamedFile::UnnamedFile(const fs::path& folder) : folder_(folder.empty() ? "." : folder) {
    fd_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd_ < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
        // A file system without unnamed files (NFS): the name is removed at once.
        std::string name = (folder_ / ".trireme-unnamed-XXXXXX").string();
        fd_ = ::mkostemp(name.data(), O_CLOEXEC);
        if (fd_ >= 0) ::unlink(name.c_str());
    }
    if (fd_ < 0) cannot_create(folder_ / "a file for what is not finished", errno);
}

UnnamedFile::~UnnamedFile() {
    ::close(fd_);
}

void UnnamedFile::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(bytes_));
        if (n < 0 && errno == EINTR) continue;
        require(n > 0, Exit::kIo, "{}: cannot write {} bytes at offset {} there: {}", folder_.string(), bytes.size(),
                bytes_, reason_of(n < 0 ? errno : ENOSPC));
        bytes = bytes.subspan(index(n));
        bytes_ += static_cast<uint64_t>(n);
    }
}

void UnnamedFile::read(uint64_t offset, std::span<std::byte> out) const {
    check(offset <= bytes_ && out.size() <= bytes_ - offset, "unnamed file: bytes {} to {} of {}", offset,
          offset + out.size(), bytes_);
    while (!out.empty()) {
        const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
        if (n < 0 && errno == EINTR) continue;
        require(n > 0, Exit::kIo, "{}: cannot read back {} bytes: {}", folder_.string(), out.size(),
                n < 0 ? reason_of(errno) : "they are not there");
        out = out.subspan(index(n));
        offset += static_cast<uint64_t>(n);
    }
}

}  // namespace trireme
