#include "launch/report/output.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "runtime/atomic_file.h"
#include "runtime/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
    return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Whether both paths would be one file: the same name in the same folder, on whatever way to it.
bool same_file(const fs::path& a, const fs::path& b) {
    struct stat one = {}, other = {};
    return a.filename() == b.filename() && ::stat(folder_of(a).c_str(), &one) == 0 &&
           ::stat(folder_of(b).c_str(), &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace

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
    std::string probe = (folder_of(path) / ".trireme-probe-XXXXXX").string();
    const int fd = fs::path(path).filename().empty() ? (errno = EISDIR, -1) : ::mkstemp(probe.data());
    if (fd < 0) {
        const Exit code = errno == EACCES || errno == EPERM ? Exit::kPermission : Exit::kCantCreate;
        fail(code, "{} {}: cannot be created: {}", flag, path, std::strerror(errno));
    }
    ::close(fd);
    ::unlink(probe.c_str());
}

void probe_outputs(const Options& o) {
    const std::string report = o.report_to_stdout() ? "" : o.report_json;
    const std::array<std::pair<std::string_view, const std::string*>, 9> files = {{{"--input", &o.input},
                                                                                   {"--data", &o.data},
                                                                                   {"--tokens", &o.tokens},
                                                                                   {"--output-path", &o.output_path},
                                                                                   {"--report-json", &report},
                                                                                   {"--dump-logits", &o.dump_logits},
                                                                                   {"--trace", &o.trace},
                                                                                   {"--kv-dump", &o.kv_dump},
                                                                                   {"--save-kv", &o.save_kv}}};
    constexpr size_t kNotProbed = 4;  // three are read, and commands look after --output-path themselves
    for (size_t i = 0; i < files.size(); ++i) {
        const auto& [flag, path] = files[i];
        for (size_t j = 0; j < i && !path->empty(); ++j) {
            require(files[j].second->empty() || !same_file(*files[j].second, *path), Exit::kUsage,
                    "{} and {} name the same file {}", files[j].first, flag, *path);
        }
        // A run that goes on writes over the snapshot that it has taken up.
        if (i >= kNotProbed) probe_output(flag, *path, o.force || *path == o.load_kv);
    }
}

void write_report(const Options& o, const std::string& text) {
    if (o.report_to_stdout()) {
        TextOut(STDOUT_FILENO).write(text);
    } else if (!o.report_json.empty()) {
        write_file_atomically(o.report_json, std::as_bytes(std::span(text)), o.old_outputs());
    }
}

}  // namespace trireme
