#include "model/checkpoint/model_folder.h"

#include <vector>

#include "model/checkpoint/tensor_names.h"
#include "model/files/json.h"
#include "model/files/new_folder.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char *kConfigName = "config.json", *kWeightsFile = "model.safetensors";

const char* safetensors_name(DType type) {
    return type == DType::kF32 ? "F32" : type == DType::kF16 ? "F16" : "BF16";
}

void write_tensors(const Conversion& model, const fs::path& path, const std::function<void()>& proceed) {
    const DType type = model.main_type();
    Json header = {{"__metadata__", {{"format", "pt"}}}};
    size_t end = 0;
    for (const Conversion::Tensor& t : model.tensors()) {
        const size_t begin = end;
        end += static_cast<size_t>(t.shape.elements()) * size_of(type);
        // Tensors that the family's files have in one matrix follow each other.
        const FileTensor there = in_safetensors(model.config(), {t.name, t.shape});
        if (there.row0 > 0) {
            header[there.name]["data_offsets"][1] = end;
            continue;
        }
        std::vector<int64_t> dims;
        for (int i = 0; i < there.shape.rank(); ++i) dims.push_back(there.shape[i]);
        header[there.name] = {{"dtype", safetensors_name(type)}, {"shape", dims}, {"data_offsets", {begin, end}}};
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    uint64_t length = text.size();
    log::info("writing {} tensors, {:.1f} MB", model.tensors().size(), static_cast<double>(end) / 1e6);
    NewFile file(path);
    file.write(&length, sizeof length);
    file.write(text.data(), text.size());
    for (const Conversion::Tensor& t : model.tensors()) {
        model.for_pieces(t, 0, t.shape.rank() == 1 ? 1 : t.shape[1], stored_as(type),
                         [&](std::span<const std::byte> bytes) {
                             proceed();
                             file.write(bytes.data(), bytes.size());
                         });
    }
    file.finish();
}

}  // namespace

void write_model_folder(const Conversion& model, const fs::path& to, const std::vector<ModelFile>& more,
                        const std::function<void()>& proceed) {
    const RopeConfig& rope = model.config().rope;
    require(rope.factors.empty() || rope.scaling == RopeScaling::kLongrope, Exit::kData,
            "{}: rotary factors of single pairs cannot be said in a config.json; a .h5 file holds them", to.string());
    std::vector<const char*> names = {kConfigName, kWeightsFile};
    names.insert(names.end(), std::begin(kCopiedFiles), std::end(kCopiedFiles));
    NewFolder out(to, names);
    const auto write = [&](const char* name, const std::string& bytes) {
        NewFile file(out / name);
        file.write(bytes.data(), bytes.size());
        file.finish();
    };
    write(kConfigName, model.config_json());  // first, since it may be refused
    write_tensors(model, out / kWeightsFile, proceed);
    bool tokenizer = false;
    std::vector<ModelFile> files = more;
    for (ModelFile& file : model.files()) {
        if (std::ranges::find(more, file.name, &ModelFile::name) == more.end()) files.push_back(std::move(file));
    }
    for (const ModelFile& file : files) {
        const auto* const name = std::ranges::find(kCopiedFiles, file.name);
        if (name == std::end(kCopiedFiles)) continue;
        write(*name, file.bytes);
        tokenizer = tokenizer || file.name.starts_with("tokenizer.");
    }
    proceed();
    out.finish();
    if (!tokenizer) log::warn("{}: has no tokenizer of its own; name one to use it", to.string());
}

}  // namespace trireme
