#include <system_error>

#include "model/files/byte_source.h"
#include "model/files/gguf_tokenizer_reader.h"
#include "model/files/weight_source.h"
#include "model/tokenizer/sentencepiece_tokenizer.h"
#include "model/tokenizer/special_files.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_json.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr uint64_t kFileBytes = uint64_t{64} << 20;

bool is_there(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

/// `path` is a tokenizer.json or tokenizer.model, by its name's end.
std::unique_ptr<Tokenizer> load_file(const ByteSource& file, const std::filesystem::path& path) {
    const SpecialFiles files = read_special_files(path.parent_path());
    const std::string content = read_text(file, kFileBytes);
    return path.extension() == ".json" ? tokenizer_from_json(content, file.name(), files)
                                       : tokenizer_from_spm(content, file.name(), files);
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
    require(is_there(path), Exit::kNoInput, "{}: there is no such file or folder", path.string());
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) {
        if (!find_gguf(path).empty()) return make_tokenizer(read_gguf_tokenizer(path));
        const bool known = path.extension() == ".json" || path.extension() == ".model";
        require(known, Exit::kData, "{}: not a tokenizer: a folder, .json, .model or .gguf was wanted", path.string());
        return load_file(*open_file(path), path);
    }
    for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
        if (is_there(path / name)) return load_file(*open_in_folder(path, name), path / name);
    }
    if (const auto gguf = find_gguf(path); !gguf.empty()) return make_tokenizer(read_gguf_tokenizer(gguf));
    fail(Exit::kNoInput, "{}: no tokenizer.json or tokenizer.model in this folder", path.string());
}

}  // namespace trireme
