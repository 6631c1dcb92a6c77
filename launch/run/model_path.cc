#include "launch/run/model_path.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "model/files/shown.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";

std::optional<fs::path> from_environment(const char* name) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') return {};
    return value;
}

/// The folder of the cache; empty if no variable names a home.
fs::path cache() {
    if (const auto hub = from_environment("HF_HUB_CACHE")) return *hub;
    if (const auto home = from_environment("HF_HOME")) return *home / "hub";
    if (const auto home = from_environment("HOME")) return *home / ".cache/huggingface/hub";
    return {};
}

/// ORG/NAME with the characters that the hub allows.
bool is_repository(const std::string& name) {
    const size_t slash = name.find('/');
    const std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
    return slash != std::string::npos && slash > 0 && slash + 1 < name.size() && name.front() != '.' &&
           name.find('/', slash + 1) == std::string::npos && name.find_first_not_of(allowed) == std::string::npos;
}

std::string snapshot_of(const fs::path& model) {
    std::error_code error;
    std::ifstream ref(model / "refs/main");
    std::string commit;
    if (ref >> commit && commit.find('/') == std::string::npos &&
        fs::is_directory(model / "snapshots" / commit, error)) {
        return (model / "snapshots" / commit).string();
    }
    std::vector<fs::path> all;
    for (const fs::directory_entry& e : fs::directory_iterator(model / "snapshots", error)) all.push_back(e.path());
    require(all.size() == 1, Exit::kNoInput, "{}: {} snapshots and no refs/main that names one; give -m {}",
            model.string(), all.size(), all.empty() ? "another path" : (model / "snapshots/COMMIT").string());
    return all.front().string();
}

}  // namespace

std::string model_path(const std::string& name) {
    std::error_code error;
    const fs::path path = name;
    const fs::path folder = path.has_filename() ? path : path.parent_path();
    if (fs::exists(path, error)) {
        const bool cached =
            folder.filename().string().starts_with(kPrefix) && fs::is_directory(path / "snapshots", error);
        return cached ? snapshot_of(folder) : name;
    }
    if (!is_repository(name)) return name;
    std::string inside(kPrefix);
    for (const char c : name) inside += c == '/' ? std::string("--") : std::string(1, c);
    const fs::path model = cache() / inside;
    require(fs::is_directory(model, error), Exit::kNoInput,
            "{}: no such file or folder, and {} is not in the cache; download the model, or give a path", shown(name),
            model.string());
    const std::string found = snapshot_of(model);
    log::info("{}: {}", name, found);
    return found;
}

}  // namespace trireme
