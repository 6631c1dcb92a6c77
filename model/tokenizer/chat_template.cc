#include "model/tokenizer/chat_template.h"

#include <utility>

#include "model/files/byte_source.h"
#include "model/files/gguf_file.h"
#include "model/files/gguf_parts.h"
#include "model/files/json.h"
#include "model/files/limits.h"
#include "model/files/store/stored_files.h"
#include "model/tokenizer/json_fields.h"
#include "runtime/index.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char *kJinja = "chat_template.jinja", *kConfig = "tokenizer_config.json",
                     *kSpecial = "special_tokens_map.json";
constexpr const char *kDefault = "default", *kTools = "tool_use";

/// Adds the special tokens of an object: members NAME_token, each a text or an object with "content".
void add_tokens(const JsonFields& fields, const Json& object, std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : object.items()) {
        if (!name.ends_with("_token") || value.is_boolean() || value.is_null()) continue;
        const Json& text = value.is_object() && value.contains("content") ? value.at("content") : value;
        if (!text.is_string()) fields.refuse("{} is {}, want a text", name, text.type_name());
        variables.try_emplace(name, text.get<std::string>());
    }
}

/// Adds the defaults of transformers' Llama tokenizers, for tokens that the files do not name.
void add_llama_tokens(const Json& config, std::map<std::string, std::string>& variables) {
    const auto found = config.find("tokenizer_class");
    if (found == config.end() || !found->is_string() || !found->get<std::string>().starts_with("Llama")) return;
    for (const auto& [name, text] : {std::pair{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}}) {
        if (!config.contains(name)) variables.try_emplace(name, text);
    }
}

/// Reads a text, or a list of {"name", "template"}; other entries are ignored.
void add_templates(const JsonFields& fields, const Json& value, ChatTemplate& out) {
    if (value.is_string()) {
        out.source = value.get<std::string>();
        return;
    }
    if (!value.is_array()) fields.refuse("chat_template is {}, want a text or a list", value.type_name());
    for (const Json& one : value) {
        const auto name = one.find("name"), source = one.find("template");
        if (name == one.end() || source == one.end() || !source->is_string()) continue;
        if (*name == kDefault) out.source = source->get<std::string>();
        if (*name == kTools) out.with_tools = source->get<std::string>();
    }
}

std::optional<ChatTemplate> from_gguf(const GgufMetadata& metadata) {
    const auto source = metadata.string("tokenizer.chat_template");
    if (!source) return {};
    ChatTemplate out = {.where = metadata.what(), .source = *source, .with_tools = {}, .variables = {}};
    out.with_tools = metadata.string(std::string("tokenizer.chat_template.") + kTools).value_or("");
    const std::vector<std::string> pieces = metadata.strings("tokenizer.ggml.tokens");
    for (const auto& [name, key] : {std::pair{"bos_token", "bos"},
                                    {"eos_token", "eos"},
                                    {"unk_token", "unknown"},
                                    {"pad_token", "padding"},
                                    {"sep_token", "seperator"}}) {
        const auto id = metadata.integer(std::string("tokenizer.ggml.") + key + "_token_id");
        if (id && *id >= 0 && *id < std::ssize(pieces)) out.variables[name] = pieces[index(*id)];
    }
    return out;
}

std::optional<ChatTemplate> in_gguf(const ByteSource& source) {
    return from_gguf(read_gguf(source).metadata);
}

}  // namespace

std::optional<ChatTemplate> read_chat_template(
    const std::string& model,
    const std::function<std::optional<std::string>(const char* name, uint64_t most)>& text_of) {
    ChatTemplate out;
    if (const auto jinja = text_of(kJinja, limits::kTokenizerBytes)) {
        out.source = *jinja;
        out.where = model + "/" + kJinja;
    }
    for (const char* name : {kConfig, kSpecial}) {
        const auto text = text_of(name, limits::kTokenizerBytes);
        if (!text) continue;
        const std::string at = model + "/" + name;
        const Json json = parse_json(*text, at, {.bytes = limits::kTokenizerBytes, .by_python = true});
        const JsonFields fields(json, at);
        const Json* own = name == kConfig ? fields.find("chat_template") : nullptr;
        if (own != nullptr && out.where.empty()) {
            add_templates(fields, *own, out);
            out.where = at;
        }
        add_tokens(fields, json, out.variables);
        if (name == kConfig) add_llama_tokens(json, out.variables);
    }
    if (out.source.empty()) return {};
    return out;
}

std::optional<ChatTemplate> read_chat_template(const fs::path& path) {
    std::error_code ignored;
    const bool folder = fs::is_directory(path, ignored);
    if (!folder && is_store_file(path)) {
        const StoredFiles files(path);
        if (const auto gguf = files.text(kStoredGguf, limits::kGgufHeader)) {
            return in_gguf(*memory_source(files.name(), std::as_bytes(std::span(*gguf))));
        }
        return read_chat_template(files.name(),
                                  [&](const char* name, uint64_t most) { return files.text(name, most); });
    }
    if (const fs::path gguf = find_gguf(path); !gguf.empty()) return in_gguf(*open_file(gguf));
    const fs::path home = folder ? path : path.parent_path();
    return read_chat_template(home.string(), [&](const char* name, uint64_t most) -> std::optional<std::string> {
        if (!has_entry(home, name)) return {};
        return read_text(*open_in_folder(home, name), most);
    });
}

}  // namespace trireme
