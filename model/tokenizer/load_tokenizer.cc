#include <system_error>

#include "model/files/byte_source.h"
#include "model/files/gguf_parts.h"
#include "model/files/limits.h"
#include "model/files/store/stored_files.h"
#include "model/tokenizer/gguf_tokenizer_reader.h"
#include "model/tokenizer/sentencepiece_tokenizer.h"
#include "model/tokenizer/special_files.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_json.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr uint64_t kTokenizerBytes = uint64_t{64} << 20;

bool file_exists(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

/// `path` is a tokenizer.json or tokenizer.model, by its name's end.
std::unique_ptr<Tokenizer> load_file(const ByteSource& file, const std::filesystem::path& path) {
    const SpecialFiles files = read_special_files(path.parent_path());
    const std::string content = read_text(file, kTokenizerBytes);
    return path.extension() == ".json" ? tokenizer_from_json(content, file.name(), files)
                                       : tokenizer_from_spm(content, file.name(), files);
}

/// The tokenizer of a model that is one file.
std::unique_ptr<Tokenizer> from_store(const std::filesystem::path& path) {
    const StoredFiles files(path);
    const auto text = [&](const char* name, uint64_t most) { return files.text(name, most); };
    const auto special = [&] { return read_special_files(files.name(), text); };
    if (const auto json = text("tokenizer.json", kTokenizerBytes)) {
        return tokenizer_from_json(*json, files.name() + ": tokenizer.json", special());
    }
    if (const auto spm = text("tokenizer.model", kTokenizerBytes)) {
        return tokenizer_from_spm(*spm, files.name() + ": tokenizer.model", special());
    }
    const auto gguf = text(kStoredGguf, limits::kGgufHeader);
    require(gguf.has_value(), Exit::kNoInput, "{}: holds no tokenizer; name one", files.name());
    return make_tokenizer(read_gguf_tokenizer(*memory_source(files.name(), std::as_bytes(std::span(*gguf)))));
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path) {
    require(file_exists(path), Exit::kNoInput, "{}: there is no such file or folder", path.string());
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) {
        if (!find_gguf(path).empty()) return make_tokenizer(read_gguf_tokenizer(path));
        if (is_store_file(path)) return from_store(path);
        const bool known = path.extension() == ".json" || path.extension() == ".model";
        require(known, Exit::kData, "{}: not a tokenizer: expected a folder, .json, .model, .gguf or .h5",
                path.string());
        return load_file(*open_file(path), path);
    }
    for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
        if (file_exists(path / name)) return load_file(*open_in_folder(path, name), path / name);
    }
    if (const auto gguf = find_gguf(path); !gguf.empty()) return make_tokenizer(read_gguf_tokenizer(gguf));
    fail(Exit::kNoInput, "{}: no tokenizer.json or tokenizer.model in this folder", path.string());
}

}  // namespace trireme
