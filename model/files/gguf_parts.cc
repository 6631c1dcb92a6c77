#include "model/files/gguf_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "model/files/limits.h"
#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> five_digits(std::string_view text) {
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (text.size() != 5 || error != std::errc() || end != text.data() + text.size() || n < 1) return {};
    return n;
}

/// A header's entries about a split: the part's number, from 0, and the count of parts.
struct Split {
    int64_t number, count;
};
Split split_of(const GgufMetadata& m) {
    // llama-gguf-split writes a count of 0 into a file that it has merged.
    return {m.integer("split.no").value_or(0), std::max<int64_t>(1, m.integer("split.count").value_or(1))};
}

/// Whether the file starts as GGUF files do: download caches name files by their digest, without an extension.
bool begins_as_gguf(const fs::path& path) {
    const auto source = open_file(path);
    std::array<char, 4> magic{};
    if (source->size() < magic.size()) return false;
    source->read(0, std::as_writable_bytes(std::span(magic)));
    return std::string_view(magic.data(), magic.size()) == "GGUF";
}

}  // namespace

std::optional<GgufPartName> GgufPartName::of(const fs::path& path) {
    constexpr std::string_view kEnd = "-00001-of-00001";
    const std::string stem = path.stem().string();
    if (path.extension() != ".gguf" || stem.size() <= kEnd.size()) return {};
    const std::string_view end = std::string_view(stem).substr(stem.size() - kEnd.size());
    const auto number = five_digits(end.substr(1, 5)), count = five_digits(end.substr(10));
    if (end[0] != '-' || end.substr(6, 4) != "-of-" || !number || !count || *number > *count) return {};
    return GgufPartName{path.parent_path() / stem.substr(0, stem.size() - kEnd.size()), *number, *count};
}

fs::path GgufPartName::part(int64_t n) const {
    return fmt::format("{}-{:05}-of-{:05}.gguf", prefix.string(), n, count);
}

std::vector<std::unique_ptr<ByteSource>> open_gguf_parts(const fs::path& path) {
    std::vector<std::unique_ptr<ByteSource>> parts;
    parts.push_back(open_file(path));
    const auto name = GgufPartName::of(path);
    if (!name || name->number != 1) return parts;
    require(name->count <= static_cast<int64_t>(limits::kShards), Exit::kData, "{}: {} parts, at most {} are read",
            path.string(), name->count, limits::kShards);
    for (int64_t n = 2; n <= name->count; ++n) parts.push_back(open_file(name->part(n)));
    return parts;
}

GgufFile read_gguf_parts(const std::vector<std::unique_ptr<ByteSource>>& parts) {
    GgufFile all = read_gguf(*parts.front());
    const auto [number, count] = split_of(all.metadata);
    const std::string& first = parts.front()->name();
    require(number == 0, Exit::kData, "{}: part {} of {}; name the first part (...-00001-of-{:05}.gguf)", first,
            number + 1, count, count);
    require(count == static_cast<int64_t>(parts.size()), Exit::kData,
            "{}: part 1 of {}, and by its name one of {}; the parts are found by their names, ...-00001-of-{:05}.gguf",
            first, count, parts.size(), count);
    std::set<std::string> names;
    for (const GgufTensor& t : all.tensors) names.insert(t.name);
    for (size_t i = 1; i < parts.size(); ++i) {
        GgufFile part = read_gguf(*parts[i]);
        const Split split = split_of(part.metadata);
        require(split.number == static_cast<int64_t>(i) && split.count == count, Exit::kData,
                "{}: part {} of {}, where part {} of {} was expected", parts[i]->name(), split.number + 1, split.count,
                i + 1, count);
        for (GgufTensor& t : part.tensors) {
            require(names.insert(t.name).second, Exit::kData, "{}: tensor '{}' is also in an earlier part",
                    parts[i]->name(), shown(t.name));
            require(all.tensors.size() < limits::kTensors, Exit::kData, "{}: more than {} tensors", first,
                    limits::kTensors);
            t.part = i;
            all.tensors.push_back(std::move(t));
        }
    }
    const auto tensors = all.metadata.integer("split.tensors.count");
    require(!tensors || *tensors == static_cast<int64_t>(all.tensors.size()), Exit::kData,
            "{}: its parts hold {} tensors, {} were expected ('split.tensors.count')", first, all.tensors.size(),
            tensors.value_or(0));
    return all;
}

fs::path find_gguf(const fs::path& path) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    require(error != std::errc::permission_denied, Exit::kPermission, "{}: {}", path.string(), error.message());
    require(fs::exists(status), Exit::kNoInput, "{}: no such file or folder", path.string());
    if (!fs::is_directory(status)) {
        const bool gguf = path.extension() == ".gguf" || (fs::is_regular_file(status) && begins_as_gguf(path));
        return gguf ? path : fs::path();
    }
    if (has_entry(path, "config.json")) return {};

    fs::directory_iterator files(path, error);
    require(!error, Exit::kPermission, "{}: cannot list the folder: {}", path.string(), error.message());
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : files) {
        const auto part = GgufPartName::of(entry.path());
        const bool later = part && part->number > 1 && fs::exists(part->part(1), error);
        if (entry.path().extension() == ".gguf" && !later) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    require(found.size() <= 1, Exit::kNoInput, "{}: {} .gguf files ({}, {}, ...); name one of them", path.string(),
            found.size(), found.empty() ? "" : found[0].filename().string(),
            found.size() < 2 ? "" : found[1].filename().string());
    return found.empty() ? fs::path() : found.front();
}

}  // namespace trireme
