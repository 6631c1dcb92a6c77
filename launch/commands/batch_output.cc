#include "launch/commands/batch_output.h"

#include <cerrno>
#include <fcntl.h>
#include <map>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/flags/flags.h"
#include "launch/flags/text_file.h"
#include "launch/report/output.h"
#include "launch/run/settings.h"
#include "model/files/shown.h"
#include "runtime/log.h"
#include "runtime/rename_file.h"

namespace trireme {
namespace {

constexpr size_t kMostOutputBytes = size_t{1} << 32;
constexpr const char* kInstead = "name another file, or start over with --force";

/// Formats a setting as a user would write it.
std::string shown_setting(const std::map<std::string, std::string>& settings, const std::string& name) {
    const std::string value = value_of(settings, name);
    if (find_key(name) == nullptr) return shown(fmt::format("{} {}", name, value));
    return shown(fmt::format("--{} {}", name, value.empty() ? "unset" : value));
}

}  // namespace

// It delegates, so that the destructor closes the file if this throws.
BatchOutput::BatchOutput(std::string path, bool anew) : BatchOutput(std::move(path)) {
    struct stat info = {};
    if (::lstat(path_.c_str(), &info) != 0) {
        probe_output("--output-path", path_, anew);
        return;
    }
    require(S_ISREG(info.st_mode), Exit::kCantCreate,
            "--output-path {}: exists and is no regular file; name another one", path_);
    open(/*creation=*/0);
    if (anew) return;
    const std::string text = read_text_file(path_, kMostOutputBytes);
    for (size_t end = text.find('\n'), from = 0; end != std::string::npos; end = text.find('\n', from)) {
        const std::string line = text.substr(from, end - from);
        lines_.push_back(parse_json(line, where(done()), {.bytes = kMostOutputBytes}));
        from = end + 1;
        kept_ = static_cast<int64_t>(from);
    }
    if (const size_t torn = text.size() - static_cast<size_t>(kept_); torn > 0) {
        log::warn("{}: its last line was not finished; its {} bytes are dropped", path_, torn);
    }
}

BatchOutput::~BatchOutput() {
    if (fd_ >= 0) ::close(fd_);
}

std::string BatchOutput::where(int64_t index) const {
    return fmt::format("{}:{}", path_, index + 1);
}

void BatchOutput::open(int creation) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC | creation, 0666);
    if (fd_ < 0) {
        const int error = errno;
        fail(exit_of_creation(error), "--output-path {}: cannot be opened: {}", path_,
             error == EEXIST ? "another run has created it meanwhile" : reason_of(error));
    }
    // The lock ends with the process. A file system without locks does not exclude a second run.
    const int error = ::flock(fd_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    require(error != EWOULDBLOCK, Exit::kCantCreate,
            "--output-path {}: another run is writing it; wait for its end, or name another file", path_);
}

void BatchOutput::require_of(const std::vector<BatchLine>& requests) const {
    for (int64_t i = 0; i < done(); ++i) {
        const Json& line = lines_[static_cast<size_t>(i)];
        const bool more = i < static_cast<int64_t>(requests.size());
        if (more && requests[static_cast<size_t>(i)].openai) {
            const BatchLine& request = requests[static_cast<size_t>(i)];
            require(line.is_object() && line.contains("id") && line.at("id") == openai_id(*request.openai), Exit::kData,
                    "{}: is not the result of {}; {}", where(i), request.where, kInstead);
            continue;
        }
        const auto index = line.is_object() ? line.find("index") : line.end();
        require(line.is_object() && index != line.end() && line.contains("request"), Exit::kData,
                "{}: holds {}, want an object with index and request, as batch writes it; {}", where(i),
                line.is_object() ? "an object without them" : line.type_name(), kInstead);
        require(*index == i, Exit::kData, "{}: has the index {}, want {}; {}", where(i), index->dump(), i, kInstead);
        require(more, Exit::kData, "{}: is the line of one more request; the input has {}; {}", where(i),
                requests.size(), kInstead);
        const BatchLine& request = requests[static_cast<size_t>(i)];
        require(line.at("request") == request.object, Exit::kData, "{}: its request is not that of {}; {}", where(i),
                request.where, kInstead);
    }
}

void BatchOutput::require_made_with(const KeyValues& settings) const {
    const std::map<std::string, std::string> mine(settings.begin(), settings.end());
    for (int64_t i = 0; i < done(); ++i) {
        const Json& line = lines_[static_cast<size_t>(i)];
        if (line.contains("custom_id")) {
            const Json::json_pointer good("/response/body/system_fingerprint"), bad("/error/system_fingerprint");
            const Json& place = line.contains(good) ? line.at(good) : line.value(bad, Json());
            require(place == fingerprint_of(settings), Exit::kData,
                    "{}: was made with other settings, or by another version; {}", where(i), kInstead);
            continue;
        }
        const auto found = line.find("settings");
        require(found != line.end() && found->is_object(), Exit::kData,
                "{}: does not say with which settings it was made; {}", where(i), kInstead);
        std::map<std::string, std::string> theirs;
        for (const auto& [name, value] : found->items()) {
            theirs[name] = value.is_string() ? value.get<std::string>() : value.dump();
        }
        if (theirs == mine) continue;
        std::string name;
        for (const auto& all : {mine, theirs}) {
            for (const auto& [key, value] : all) {
                const bool both = mine.contains(key) && theirs.contains(key);
                if (name.empty() && !(both && mine.at(key) == theirs.at(key))) name = key;
            }
        }
        fail(Exit::kData, "{}: was made with {}, this run has {}; {}", where(i), shown_setting(theirs, name),
             shown_setting(mine, name), kInstead);
    }
}

std::string BatchOutput::text(int64_t index) const {
    const Json& line = lines_[static_cast<size_t>(index)];
    const Json::json_pointer text("/result/choices/0/text");
    require(line.contains(text) && line.at(text).is_string(), Exit::kData,
            "{}: has no text in its result, want result.choices[0].text, as batch writes it; {}", where(index),
            kInstead);
    return line.at(text).get<std::string>();
}

void BatchOutput::begin() {
    if (fd_ < 0) {
        open(O_CREAT | O_EXCL);
        sync_folder(path_);  // the name survives a crash
    }
    struct stat info = {};
    const bool measured = ::fstat(fd_, &info) == 0;
    require(measured && info.st_size >= kept_, Exit::kIo, "{}: cannot be measured, or is shorter than it was", path_);
    const int error = info.st_size == kept_ || ::ftruncate(fd_, kept_) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: cannot be cut to {} bytes: {}", path_, kept_, reason_of(error));
}

void BatchOutput::append(std::string line) {
    line += '\n';
    std::string_view rest = line;
    while (!rest.empty()) {
        const ssize_t n = ::write(fd_, rest.data(), rest.size());
        if (n < 0 && errno == EINTR) continue;
        const int error = n < 0 ? errno : ENOSPC;
        require(n > 0, Exit::kIo, "{}: cannot write {} bytes: {}; the lines before are there", path_, rest.size(),
                reason_of(error));
        rest.remove_prefix(static_cast<size_t>(n));
    }
    const int error = ::fsync(fd_) == 0 ? 0 : errno;
    require(error == 0, Exit::kIo, "{}: cannot flush to the disk: {}", path_, reason_of(error));
}

}  // namespace trireme
