#include "model/tokenizer/tokenizer_json.h"

#include <algorithm>
#include <optional>

#include "model/files/limits.h"
#include "model/files/shown.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/json_fields.h"
#include "model/tokenizer/json_parts.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/log.h"

namespace trireme {
namespace {

constexpr size_t kJsonBytes = size_t{64} << 20;  // Llama 3's has 9 MB, the largest known ones 33 MB

void refuse_what_is_not_bpe(const JsonFields& model) {
    const std::string type = model.optional_text("type").value_or("BPE");  // files of 2020 have no type
    if (type != "BPE") model.refuse("'{}' is not supported (BPE is)", shown(type));
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        if (!model.optional_text(name).value_or("").empty()) model.refuse("'{}' is not supported", name);
    }
    const Json* dropout = model.find("dropout");
    if (dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0.0))
        model.refuse("'dropout' would make encoding random");
}

/// text -> id, each id in [0, limits::kVocab) and none twice.
TextIds read_vocabulary(const JsonFields& model, int64_t& vocab) {
    const Json& entries = model.need("vocab");
    const JsonFields fields(entries, model.where() + ": vocab");
    TextIds ids;
    ids.reserve(entries.size());
    std::vector<bool> taken;
    for (const auto& [text, value] : entries.items()) {
        const bool fits = value.is_number_unsigned() && value.get<uint64_t>() < static_cast<uint64_t>(limits::kVocab);
        require(fits, Exit::kData, "{}: '{}' has the id {}, expected an integer in [0, {})", fields.where(),
                shown(text), shown(value.dump()), limits::kVocab);
        require(text.size() <= kPieceBytes, Exit::kData, "{}: a token has {} bytes, at most {} are read",
                fields.where(), text.size(), kPieceBytes);
        const auto id = value.get<size_t>();
        if (taken.size() <= id) taken.resize(id + 1);
        require(!taken[id], Exit::kData, "{}: two tokens have the id {}", fields.where(), id);
        taken[id] = true;
        ids.emplace(text, static_cast<int32_t>(id));
    }
    vocab = std::max(vocab, static_cast<int64_t>(taken.size()));
    return ids;
}

/// "left right" or ["left", "right"].
std::pair<std::string, std::string> read_pair(const Json& merge, const JsonFields& model, size_t index) {
    if (merge.is_string()) {
        const auto& text = merge.get_ref<const std::string&>();
        const size_t space = text.find(' ');
        if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
            return {text.substr(0, space), text.substr(space + 1)};
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        return {merge[0].get<std::string>(), merge[1].get<std::string>()};
    }
    fail(Exit::kData, "{}: merge {} is {}, expected two tokens", model.where(), index, shown(merge.dump()));
}

// A pair that is listed twice keeps its last rank, as in the reference.
PairTable read_merges(const JsonFields& model, const TextIds& ids) {
    const Json& list = model.list("merges");
    PairTable table(list.size());
    for (size_t rank = 0; rank < list.size(); ++rank) {
        const auto [left, right] = read_pair(list[rank], model, rank);
        const auto id_of = [&](const std::string& token) {
            const auto found = ids.find(token);
            require(found != ids.end(), Exit::kData,
                    "{}: merge {} needs the token '{}', which is not in the vocabulary", model.where(), rank,
                    shown(token));
            return found->second;
        };
        const int32_t left_id = id_of(left);
        const int32_t right_id = id_of(right);
        table.replace(left_id, right_id, {static_cast<uint32_t>(rank), id_of(left + right)});
    }
    return table;
}

std::string piece_of(const std::string& token, bool byte_level, const DecoderParts& decoder) {
    if (byte_level) return bytes_from_byte_level(token).value_or(token);
    if (const int byte = byte_of_piece(token); decoder.byte_fallback && byte >= 0)
        return std::string(1, static_cast<char>(static_cast<uint8_t>(byte)));
    return normalized(decoder.replacements, token);
}

/// The part of a vocabulary that encoding looks up: by bytes if byte-level.
TextIds lookup_of(TextIds by_text, bool byte_level) {
    if (!byte_level) return by_text;
    TextIds by_bytes;
    by_bytes.reserve(by_text.size());
    for (const auto& [text, id] : by_text) {
        if (const std::optional<std::string> bytes = bytes_from_byte_level(text)) by_bytes.emplace(*bytes, id);
    }
    return by_bytes;
}

std::array<int32_t, 256> byte_ids_of(const TextIds& ids, bool byte_level, bool byte_fallback) {
    std::array<int32_t, 256> byte_ids;
    byte_ids.fill(-1);
    for (size_t byte = 0; byte < byte_ids.size() && (byte_level || byte_fallback); ++byte) {
        const std::string name = byte_level ? std::string(1, static_cast<char>(static_cast<uint8_t>(byte)))
                                            : fmt::format("<0x{:02X}>", byte);
        if (const auto found = ids.find(name); found != ids.end()) byte_ids[byte] = found->second;
    }
    return byte_ids;
}

/// Adds no cut points if a merge joins an unknown or byte fallback token, whose text is not the text it stands for.
void add_cuts(const JsonFields& model, BpeParts& parts) {
    const auto is_fallback = [&](const std::string& token) {
        const auto found = parts.ids.find(token);
        return found != parts.ids.end() && (found->second == parts.unknown || byte_of_piece(token) >= 0);
    };
    const Json& merges = model.list("merges");
    for (size_t rank = 0; rank < merges.size(); ++rank) {
        const auto [left, right] = read_pair(merges[rank], model, rank);
        if (is_fallback(left) || is_fallback(right)) {
            parts.cuts = {};
            return;
        }
        parts.cuts.add_token(left + right);
    }
    for (const auto& [text, id] : parts.ids) {
        if (utf8_length(text) == text.size()) parts.cuts.add_token(text);
    }
}

/// Requires that added tokens have the vocabulary's ids, and share no id with another token.
void check_added(const std::vector<AddedToken>& added, const TextIds& ids, const std::string& what) {
    std::unordered_map<int32_t, std::string_view> texts;
    for (const auto& [text, id] : ids) texts.emplace(id, text);
    for (const AddedToken& token : added) {
        const auto by_text = ids.find(token.text);
        const auto by_id = texts.find(token.id);
        const bool same = by_text == ids.end() ? by_id == texts.end() : by_text->second == token.id;
        require(same, Exit::kData, "{}: added token '{}' with id {} contradicts the vocabulary", what,
                shown(token.text), token.id);
    }
}

/// As in transformers 5, only tokenizer.json decides which tokens are put around a text. add_bos_token and
/// add_eos_token of tokenizer_config.json are ignored.
void prefer_template(SpecialFiles& files, const TemplateParts& around, const std::string& what) {
    const auto differs = [](std::optional<bool> flag, const std::vector<int32_t>& ids) {
        return flag && *flag != !ids.empty();
    };
    if (differs(files.add_bos, around.before) || differs(files.add_eos, around.after)) {
        log::warn(
            "{}: its template puts {} token(s) before a text and {} after it; add_bos_token and add_eos_token of "
            "tokenizer_config.json differ and are ignored, as in transformers 5",
            what, around.before.size(), around.after.size());
    }
    files.add_bos = files.add_eos = std::nullopt;
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view text, const std::string& what,
                                               const SpecialFiles& files) {
    const Json json = parse_json(text, what, {.depth = 64, .bytes = kJsonBytes});
    const JsonFields root(json, what);
    const JsonFields model = root.object("model");
    refuse_what_is_not_bpe(model);

    TokenTable table;
    BpeParts parts;
    parts.what = what;
    table.added = read_added_tokens(root.find("added_tokens"), what);
    int64_t vocab = 0;
    for (const AddedToken& token : table.added) vocab = std::max<int64_t>(vocab, token.id + 1);
    TextIds by_text = read_vocabulary(model, vocab);
    require(vocab > 0, Exit::kData, "{}: the vocabulary is empty", what);
    check_added(table.added, by_text, what);

    NormalizerParts normalizer = read_normalizer(root.find("normalizer"), what);
    PreTokenizerParts pre = read_pre_tokenizer(root.find("pre_tokenizer"), what);
    const DecoderParts decoder = read_decoder(root.find("decoder"), what);
    require(!normalizer.moves_start || pre.prefix != PrefixSpace::kAtStart, Exit::kData,
            "{}: prepend_scheme 'first' after a normalizer that deletes or decomposes is not supported", what);
    table.prefix = std::max(normalizer.prefix, pre.prefix);
    parts.normalizers = std::move(normalizer.steps);
    parts.pre_tokenizers = std::move(pre.steps);
    parts.byte_level = pre.byte_level;

    table.pieces.resize(static_cast<size_t>(vocab));
    size_t bytes = 0;
    for (const auto& [token, id] : by_text) {
        std::string& piece = table.pieces[index(id)];
        piece = piece_of(token, parts.byte_level, decoder);
        bytes += piece.size();
        require(bytes <= kJsonBytes, Exit::kData, "{}: decoder: the vocabulary becomes more than {} bytes", what,
                kJsonBytes);
    }
    for (const AddedToken& token : table.added) table.pieces[index(token.id)] = token.text;

    parts.merges = read_merges(model, by_text);
    parts.ignore_merges = model.flag("ignore_merges", false);
    parts.fuse_unknown = model.flag("fuse_unk", false);
    if (const std::optional<std::string> unknown = model.optional_text("unk_token")) {
        const auto found = by_text.find(*unknown);
        if (found == by_text.end()) model.refuse("unk_token '{}' is not in the vocabulary", shown(*unknown));
        parts.unknown = found->second;
    }
    const TemplateParts around = read_post_processor(root.find("post_processor"), what, vocab);
    table.before = around.before;
    table.after = around.after;
    SpecialFiles said = files;
    prefer_template(said, around, what);
    said.apply(table, [&](const std::string& name) {
        const auto found = by_text.find(name);
        return found != by_text.end() ? found->second : table.id_of_added(name);
    });

    const bool byte_fallback = model.flag("byte_fallback", false);
    parts.ids = lookup_of(std::move(by_text), parts.byte_level);
    parts.byte_ids = byte_ids_of(parts.ids, parts.byte_level, byte_fallback);
    if (!parts.byte_level) add_cuts(model, parts);
    return std::make_unique<BpeTokenizer>(table, std::move(parts));
}

}  // namespace trireme
