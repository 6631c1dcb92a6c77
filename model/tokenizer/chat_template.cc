#include "model/tokenizer/chat_template.h"

#include <functional>
#include <optional>
#include <string>

#include "model/files/byte_source.h"
#include "model/files/gguf_file.h"
#include "model/files/gguf_parts.h"
#include "model/files/json.h"
#include "model/files/limits.h"
#include "model/files/store/stored_files.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char *kJinja = "chat_template.jinja", *kConfig = "tokenizer_config.json";

bool has(const ByteSource& gguf) {
    return read_gguf(gguf).metadata.has("tokenizer.chat_template");
}

bool in_config(const std::string& text, const std::string& where) {
    const Json json = parse_json(text, where, {.bytes = limits::kTokenizerBytes, .by_python = true});
    return json.is_object() && json.contains("chat_template") && !json["chat_template"].is_null();
}

}  // namespace

bool has_chat_template(const fs::path& path) {
    std::error_code ignored;
    const bool folder = fs::is_directory(path, ignored);
    if (!folder && is_store_file(path)) {
        const StoredFiles files(path);
        if (files.text(kJinja, limits::kTokenizerBytes)) return true;
        if (const auto text = files.text(kConfig, limits::kTokenizerBytes)) return in_config(*text, files.name());
        const auto gguf = files.text(kStoredGguf, limits::kGgufHeader);
        return gguf && has(*memory_source(files.name(), std::as_bytes(std::span(*gguf))));
    }
    if (const fs::path gguf = find_gguf(path); !gguf.empty()) return has(*open_file(gguf));
    const fs::path home = folder ? path : path.parent_path();
    if (has_entry(home, kJinja)) return true;
    return has_entry(home, kConfig) &&
           in_config(read_text(*open_in_folder(home, kConfig), limits::kTokenizerBytes), (home / kConfig).string());
}

}  // namespace trireme
