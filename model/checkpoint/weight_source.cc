#include "model/checkpoint/weight_source.h"

#include <algorithm>
#include <array>
#include <span>

#include "model/checkpoint/gguf_model.h"
#include "model/checkpoint/safetensors_model.h"
#include "model/checkpoint/store_model.h"
#include "model/files/byte_source.h"
#include "model/files/gguf_parts.h"
#include "runtime/error.h"

namespace trireme {

namespace fs = std::filesystem;

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

void WeightSource::read_blocks(std::string_view name, int64_t row0, int64_t rows, int64_t col0,
                               std::span<std::byte> out) const {
    const size_t i = index_of(name);
    check(tensors_[i].shape.rank() == 2 && is_quantised(tensors_[i].type), "tensor '{}' {} of {} read in blocks", name,
          tensors_[i].shape, name_of(tensors_[i].type));
    do_read_blocks(i, row0, rows, col0, out);
}

void WeightSource::do_read_blocks(size_t tensor, int64_t, int64_t, int64_t, std::span<std::byte>) const {
    fail(Exit::kInternal, "tensor '{}': this checkpoint has no blocks", tensors_[tensor].name);
}

int64_t WeightSource::rows_together(std::string_view name) const {
    return do_rows_together(index_of(name));
}

void WeightSource::add_tensor(TensorInfo info) {
    index_.emplace(info.name, tensors_.size());
    tensors_.push_back(std::move(info));
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
