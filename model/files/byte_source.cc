#include "model/files/byte_source.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "model/files/checked.h"
#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/rename_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

Exit exit_of(int error) {
    switch (error) {
        case ENOENT:
        case ENOTDIR:
            return Exit::kNoInput;
        case EACCES:
        case EPERM:
            return Exit::kPermission;
        case EMFILE:
        case ENFILE:
        case ENOMEM:
            return Exit::kOs;
        case ENXIO:  // a socket, or a device without a driver
        case ELOOP:
        case ENAMETOOLONG:
            return Exit::kData;
        default:
            return Exit::kIo;
    }
}

class FileSource final : public ByteSource {
  public:
    FileSource(std::string name, int fd, const struct stat& st)
        : ByteSource(std::move(name), static_cast<uint64_t>(st.st_size)), fd_(fd), opened_(st) {}
    FileSource(const FileSource&) = delete;
    FileSource& operator=(const FileSource&) = delete;
    ~FileSource() override { ::close(fd_); }

    void check_unchanged() const override {
        struct stat now {};
        const int error = ::fstat(fd_, &now) == 0 ? 0 : errno;
        require(error == 0, Exit::kIo, "{}: {}", name(), reason_of(error));
        require(now.st_dev == opened_.st_dev && now.st_ino == opened_.st_ino && now.st_size == opened_.st_size &&
                    now.st_mtim.tv_sec == opened_.st_mtim.tv_sec && now.st_mtim.tv_nsec == opened_.st_mtim.tv_nsec,
                Exit::kIo, "{}: the file changed while it was read; run again when nothing writes to it", name());
    }

  private:
    static constexpr size_t kLongRead = size_t{1} << 19, kReadAhead = size_t{4} << 20;

    void do_read(uint64_t offset, std::span<std::byte> out) const override {
        if (out.size() >= kLongRead) {  // the disk reads ahead while these bytes are checked
            ::posix_fadvise(fd_, static_cast<off_t>(offset + out.size()), off_t{kReadAhead}, POSIX_FADV_WILLNEED);
        }
        while (!out.empty()) {
            const ssize_t n = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
            const int error = n < 0 ? errno : 0;
            if (error == EINTR) continue;
            require(error == 0, Exit::kIo, "{}: cannot read {} bytes at {}: {}", name(), out.size(), offset,
                    reason_of(error));
            require(n > 0, Exit::kIo, "{}: the file was cut to {} bytes while it was read (it had {})", name(), offset,
                    size());
            offset += static_cast<uint64_t>(n);
            out = out.subspan(index(n));
        }
    }

    int fd_;
    struct stat opened_;
};

class MemorySource final : public ByteSource {
  public:
    MemorySource(std::string name, std::span<const std::byte> bytes)
        : ByteSource(std::move(name), bytes.size()), bytes_(bytes) {}

  private:
    void do_read(uint64_t offset, std::span<std::byte> out) const override {
        if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    }

    std::span<const std::byte> bytes_;
};

std::unique_ptr<ByteSource> open_with(const fs::path& path, std::string name, int extra_flags) {
    // Without O_NONBLOCK, opening a pipe that has no writer would block for ever.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | extra_flags);
    if (fd < 0) fail(exit_of(errno), "{}: cannot open: {}", name, reason_of(errno));
    struct stat st {};
    if (::fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        ::close(fd);
        fail(Exit::kData, "{}: not a regular file", name);
    }
    return std::make_unique<FileSource>(std::move(name), fd, st);
}

bool is_inside(const fs::path& path, const fs::path& folder) {
    const fs::path relative = path.lexically_relative(folder);
    return !relative.empty() && *relative.begin() != ".." && *relative.begin() != ".";
}

}  // namespace

void ByteSource::read(uint64_t offset, std::span<std::byte> out) const {
    const Checked end = Checked(offset) + out.size();
    require(end.at_most(size_), Exit::kData,
            "{}: {} bytes are needed at {}, the file ends at {}; it looks cut short: get it again", name_, out.size(),
            offset, size_);
    do_read(offset, out);
}

std::unique_ptr<ByteSource> memory_source(std::string name, std::span<const std::byte> bytes) {
    return std::make_unique<MemorySource>(std::move(name), bytes);
}

std::unique_ptr<ByteSource> open_file(const fs::path& path) {
    return open_with(path, path.string(), 0);
}

std::unique_ptr<ByteSource> open_in_folder(const fs::path& folder, const std::string& file) {
    require(!file.empty() && file != "." && file != ".." && file.find('/') == std::string::npos &&
                file.find('\0') == std::string::npos,
            Exit::kData, "{}: '{}' is not a plain file name; a model's files lie in its own folder", folder.string(),
            shown(file));
    const fs::path path = folder / file;
    std::error_code error;
    const fs::path home = fs::canonical(folder, error);
    if (error) fail(exit_of(error.value()), "{}: cannot open: {}", folder.string(), error.message());
    const fs::path target = fs::canonical(path, error);
    if (error) fail(exit_of(error.value()), "{}: cannot open: {}", path.string(), error.message());
    const bool cached =
        home.parent_path().filename() == "snapshots" && is_inside(target, home.parent_path().parent_path() / "blobs");
    require(is_inside(target, home) || cached, Exit::kData,
            "{}: a link to {}, outside the model's folder; copy the file, or name the folder it lies in", path.string(),
            shown(target.string()));
    // The resolved path has no links. O_NOFOLLOW refuses one that was put there after the check above.
    return open_with(target, path.string(), O_NOFOLLOW);
}

bool has_entry(const fs::path& folder, const std::string& file) {
    struct stat st {};
    return ::lstat((folder / file).c_str(), &st) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

std::string read_text(const ByteSource& source, uint64_t limit) {
    require(source.size() <= limit, Exit::kData, "{}: {} bytes, at most {} are read", source.name(), source.size(),
            limit);
    std::string text(static_cast<size_t>(source.size()), '\0');
    source.read(0, std::as_writable_bytes(std::span(text)));
    source.check_unchanged();
    return text;
}

}  // namespace trireme
