#include "model/files/weight_source.h"

#include <algorithm>
#include <array>
#include <span>

#include "model/files/byte_source.h"
#include "model/files/gguf_model.h"
#include "model/files/gguf_parts.h"
#include "model/files/safetensors_model.h"
#include "model/files/store_model.h"
#include "runtime/error.h"

namespace trireme {

namespace fs = std::filesystem;

namespace {

/// Whether the file starts as GGUF files do: download caches name files by their digest, without an extension.
bool begins_as_gguf(const fs::path& path) {
    const auto source = open_file(path);
    std::array<char, 4> magic{};
    if (source->size() < magic.size()) return false;
    source->read(0, std::as_writable_bytes(std::span(magic)));
    return std::string_view(magic.data(), magic.size()) == "GGUF";
}

}  // namespace

size_t WeightSource::index_of(std::string_view name) const {
    const auto it = index_.find(name);
    check(it != index_.end(), "no tensor '{}' in this checkpoint", name);
    return it->second;
}

const TensorInfo& WeightSource::info(std::string_view name) const {
    return tensors_[index_of(name)];
}

void WeightSource::read(std::string_view name, int64_t row0, int64_t col0, const HostTensor& out) const {
    const size_t i = index_of(name);
    const Shape& shape = tensors_[i].shape;
    check(out.shape().rank() == shape.rank(), "tensor '{}' {} read as {}", name, shape, out.shape());
    do_read(i, row0, col0, out);
}

int64_t WeightSource::rows_together(std::string_view name) const {
    return do_rows_together(index_of(name));
}

void WeightSource::add_tensor(TensorInfo info) {
    index_.emplace(info.name, tensors_.size());
    tensors_.push_back(std::move(info));
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

std::unique_ptr<WeightSource> open_model(const fs::path& path) {
    const fs::path gguf = find_gguf(path);
    if (!gguf.empty()) return open_gguf_model(open_gguf_parts(gguf));
    std::error_code ignored;  // find_gguf has checked that it exists
    if (is_store_file(path)) return open_store_model(open_file(path));
    require(fs::is_directory(path, ignored), Exit::kData,
            "{}: neither a model folder nor a .gguf file nor a .h5 file that convert has written; a safetensors file "
            "is opened by the folder it lies in",
            path.string());
    require(has_entry(path, "config.json"), Exit::kNoInput, "{}: holds neither a config.json nor a .gguf file",
            path.string());
    return open_safetensors_model(path);
}

bool has_weights(const fs::path& path) {
    if (!find_gguf(path).empty() || is_store_file(path)) return true;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
        if (entry.path().extension() == ".safetensors") return true;
    }
    return false;
}

LlamaConfig open_config(const fs::path& path) {
    if (path.filename() == "config.json") return read_folder_config(path.has_parent_path() ? path.parent_path() : ".");
    if (!find_gguf(path).empty() || !has_entry(path, "config.json")) return open_model(path)->config();
    return read_folder_config(path);
}

}  // namespace trireme
