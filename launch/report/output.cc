#include "launch/report/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <span>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <fmt/ranges.h>

#include "launch/record/record_file.h"
#include "runtime/atomic_file.h"
#include "runtime/error.h"
#include "runtime/part_file.h"
#include "runtime/rename_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const fs::path& path) {
    return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

/// Whether both paths name one file: the same name in the same folder, by any path to that folder.
bool same_file(const fs::path& a, const fs::path& b) {
    struct stat one = {}, other = {};
    return a.filename() == b.filename() && ::stat(folder_of(a).c_str(), &one) == 0 &&
           ::stat(folder_of(b).c_str(), &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

/// Whether the file lies in this folder, or below it.
bool lies_in(const fs::path& file, const fs::path& folder) {
    std::error_code none;
    if (!fs::is_directory(folder, none)) return false;
    const fs::path inner = fs::weakly_canonical(folder_of(file), none), outer = fs::weakly_canonical(folder, none);
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

bool TextOut::write(std::string_view text) {
    while (!text.empty() && !closed_) {
        const ssize_t n = ::write(fd_, text.data(), text.size());
        const int error = n < 0 ? errno : n == 0 ? ENOSPC : 0;
        if (error == EINTR) continue;
        if (error == EPIPE) {
            closed_ = true;
        } else if (error != 0) {
            fail(Exit::kIo, "stdout: cannot be written: {}", reason_of(error));
        } else {
            last_ = text[static_cast<size_t>(n) - 1];
            text.remove_prefix(static_cast<size_t>(n));
        }
    }
    return !closed_;
}

std::string ids_as_json(const std::vector<int32_t>& ids) {
    return fmt::format("[{}]", fmt::join(ids, ","));
}

void probe_output(std::string_view flag, const std::string& path, bool force) {
    if (path.empty()) return;
    try {
        const PartFile part(path, force ? IfThere::kReplace : IfThere::kRefuse);
    } catch (const Error& e) {
        fail(e.code(), "{} {}", flag, e.what());
    }
}

void probe_outputs(const Options& o) {
    const std::string report = o.report_to_stdout() ? "" : o.report_json;
    const std::array<std::pair<std::string_view, const std::string*>, 11> files = {
        {{"--input", &o.input},
         {"--data", &o.data},
         {"--suffix-corpus", &o.suffix_corpus},
         {"--tokens", &o.tokens},
         {"--output-path", &o.output_path},
         {"--record", &o.record},
         {"--report-json", &report},
         {"--dump-logits", &o.dump_logits},
         {"--trace", &o.trace},
         {"--kv-dump", &o.kv_dump},
         {"--save-kv", &o.save_kv}}};
    // Commands probe --output-path and --record themselves.
    constexpr size_t kInputs = 4, kNotProbed = kInputs + 2;
    require(o.output_path.empty() || !lies_in(o.output_path, o.suffix_corpus), Exit::kUsage,
            "--output-path {} lies in the folder of --suffix-corpus {}: it would change what later runs search; want a "
            "file outside it",
            o.output_path, o.suffix_corpus);
    for (size_t i = kInputs; i < files.size(); ++i) {  // two inputs may be one file
        const auto& [flag, path] = files[i];
        for (size_t j = 0; j < i && !path->empty() && *path != "-"; ++j) {  // "-": stdin and stdout
            require(files[j].second->empty() || !same_file(*files[j].second, *path), Exit::kUsage,
                    "{} and {} name the same file {}", files[j].first, flag, *path);
        }
        // A resumed run overwrites the snapshot that it resumed from.
        if (i >= kNotProbed) probe_output(flag, *path, o.force || *path == o.load_kv);
    }
    probe_record(o.record);
}

void write_report(const Options& o, const std::string& text) {
    if (o.report_to_stdout()) {
        TextOut(STDOUT_FILENO).write(text);
    } else if (!o.report_json.empty()) {
        write_file_atomically(o.report_json, std::as_bytes(std::span(text)), o.old_outputs());
    }
}

}  // namespace trireme
