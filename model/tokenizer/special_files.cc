#include "model/tokenizer/special_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "model/files/byte_source.h"
#include "model/files/limits.h"
#include "model/files/shown.h"
#include "model/tokenizer/json_fields.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr uint64_t kSpecialFileBytes = uint64_t{16} << 20;  // chat templates and hundreds of reserved tokens

/// "</s>" or {"content": "</s>", ...}.
std::optional<std::string> token_name(const JsonFields& fields, const char* name) {
    const Json* found = fields.find(name);
    if (found == nullptr || !found->is_object()) return fields.optional_text(name);
    return fields.object(name).text("content");
}

void read_names(const JsonFields& fields, SpecialFiles& files) {
    if (!files.bos) files.bos = token_name(fields, "bos_token");
    if (!files.eos) files.eos = token_name(fields, "eos_token");
}

void add_token(SpecialFiles& files, AddedToken token, const std::string& where) {
    require(token.text.size() <= kPieceBytes, Exit::kData, "{}: an added token has {} bytes, at most {} are read",
            where, token.text.size(), kPieceBytes);
    const auto same = std::find_if(files.added.begin(), files.added.end(), [&](const AddedToken& other) {
        return other.id == token.id || other.text == token.text;
    });
    if (same == files.added.end()) {
        files.added.push_back(std::move(token));
    } else if (same->id != token.id || same->text != token.text) {
        fail(Exit::kData, "{}: '{}' with id {} contradicts '{}' with id {}", where, shown(token.text), token.id,
             shown(same->text), same->id);
    }
}

/// {"32000": {"content": "<pad>", "special": true, ...}, ...}
void read_added_decoder(const JsonFields& decoder, const Json& items, SpecialFiles& files) {
    for (const auto& [number, item] : items.items()) {
        const JsonFields fields(item, fmt::format("{}: {}", decoder.where(), shown(number)));
        AddedToken token;
        const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), token.id);
        if (error != std::errc() || end != number.data() + number.size() || token.id < 0 || token.id >= limits::kVocab)
            fields.refuse("the key is not the id of a token");
        token.text = fields.text("content");
        token.special = fields.flag("special", false);
        token.lstrip = fields.flag("lstrip", false);
        token.rstrip = fields.flag("rstrip", false);
        token.single_word = fields.flag("single_word", false);
        add_token(files, std::move(token), fields.where());
    }
}

void read_tokenizer_config(const Json& json, const std::string& where, SpecialFiles& files) {
    const JsonFields fields(json, where);
    read_names(fields, files);
    files.add_bos = fields.optional_flag("add_bos_token");
    files.add_eos = fields.optional_flag("add_eos_token");
    files.legacy = fields.optional_flag("legacy").value_or(false);
    files.add_prefix_space = fields.optional_flag("add_prefix_space");
    if (const Json* items = fields.find("added_tokens_decoder"))
        read_added_decoder(fields.object("added_tokens_decoder"), *items, files);
}

/// {"<pad>": 32000, ...}
void read_added_tokens_file(const Json& json, const std::string& where, SpecialFiles& files) {
    const JsonFields fields(json, where);
    for (const auto& [text, id] : json.items()) {
        AddedToken token;
        token.text = text;
        token.id = static_cast<int32_t>(fields.index(text, limits::kVocab));
        const bool known = std::any_of(files.added.begin(), files.added.end(),
                                       [&](const AddedToken& other) { return other.text == token.text; });
        if (!known) add_token(files, std::move(token), where);
    }
}

/// A number or a list of them; null and missing are none.
std::vector<int64_t> read_ids(const JsonFields& fields, const char* name) {
    std::vector<int64_t> ids;
    const Json* found = fields.find(name);
    if (found == nullptr) return ids;
    const Json list = found->is_array() ? *found : Json::array({*found});
    for (const Json& id : list) {
        require(id.is_number_integer() && ids.size() < limits::kEosTokens, Exit::kData,
                "{}: '{}' is not a token id or a list of at most {}", fields.where(), name, limits::kEosTokens);
        ids.push_back(id.get<int64_t>());
    }
    return ids;
}

void read_generation(const Json& json, const std::string& where, SpecialFiles& files) {
    const JsonFields fields(json, where);
    if (files.eos_ids.empty()) files.eos_ids = read_ids(fields, "eos_token_id");
    const std::vector<int64_t> bos = read_ids(fields, "bos_token_id");
    if (!files.bos_id && !bos.empty()) files.bos_id = bos[0];
}

}  // namespace

int32_t SpecialFiles::named(const char* field, const std::string& text, int32_t id) const {
    require(id >= 0, Exit::kData, "{}: {} '{}' is not in the vocabulary", what, field, shown(text));
    return id;
}

int32_t SpecialFiles::in_vocab(const char* field, int64_t id, const TokenTable& table) const {
    const auto vocab = static_cast<int64_t>(table.pieces.size());
    if (id >= 0 && id < vocab) return static_cast<int32_t>(id);
    log::debug("{}: {} {} is not in the vocabulary of {}; it is ignored", what, field, id, vocab);
    return -1;
}

void SpecialFiles::set_around(std::vector<int32_t>& ids, bool wanted, int32_t id) {
    ids.clear();
    if (wanted && id >= 0) ids.push_back(id);
}

SpecialFiles read_special_files(const std::filesystem::path& folder) {
    return read_special_files(folder.string(), [&](const char* name, uint64_t most) -> std::optional<std::string> {
        std::error_code ignored;
        if (!std::filesystem::exists(folder / name, ignored)) return {};
        return read_text(*open_in_folder(folder, name), most);
    });
}

SpecialFiles read_special_files(
    const std::string& model,
    const std::function<std::optional<std::string>(const char* name, uint64_t most)>& text_of) {
    SpecialFiles files;
    files.what = model;
    using Reader = void (*)(const Json&, const std::string&, SpecialFiles&);
    static constexpr std::array<std::pair<const char*, Reader>, 5> kReaders = {{
        {"tokenizer_config.json", read_tokenizer_config},
        {"special_tokens_map.json",
         [](const Json& json, const std::string& where, SpecialFiles& out) {
             read_names({json, where}, out);
         }},
        {"added_tokens.json", read_added_tokens_file},
        {"generation_config.json", read_generation},
        {"config.json", read_generation},
    }};
    for (const auto& [name, read] : kReaders) {
        const std::optional<std::string> text = text_of(name, kSpecialFileBytes);
        if (!text) continue;
        const std::string where = (std::filesystem::path(model) / name).string();
        read(parse_json(*text, where, {.depth = 64, .bytes = kSpecialFileBytes, .by_python = true}), where, files);
    }
    return files;
}

}  // namespace trireme
