#include "model/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <array>

#include "model/files/limits.h"
#include "model/files/shown.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/spm_tokenizer.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// How llama.cpp cuts text for a `pre`: with one pattern after the other.
struct PreRule {
    std::string_view name;
    std::array<std::string_view, 4> patterns;
    bool ignore_merges = false;
    bool add_bos = false;
};

constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

const std::array<PreRule, 8>& pre_rules() {
    static const std::array<PreRule, 8> rules = {{
        {"gpt-2", {kGpt2Pattern}},
        {"smollm", {R"(\p{N})", kGpt2Pattern}},
        {"qwen2", {kQwen2Pattern}},
        {"deepseek-r1-qwen", {kQwen2Pattern}},
        {"llama-bpe", {kLlama3Pattern}, /*ignore_merges=*/true, /*add_bos=*/true},
        {"llama3", {kLlama3Pattern}, /*ignore_merges=*/true, /*add_bos=*/true},
        {"llama-v3", {kLlama3Pattern}, /*ignore_merges=*/true, /*add_bos=*/true},
        {"default", {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
    }};
    return rules;
}

const PreRule& rule_of(const GgufTokenizer& gguf) {
    const std::string_view name = gguf.pre.empty() ? "default" : std::string_view(gguf.pre);
    std::string known;
    for (const PreRule& rule : pre_rules()) {
        if (rule.name == name) return rule;
        known += (known.empty() ? "" : ", ") + std::string(rule.name);
    }
    fail(Exit::kData, "{}: tokenizer.ggml.pre '{}' is not supported ({} are)", gguf.what, shown(name), known);
}

/// Tokens that end a conversation turn or a sequence in the model families of GGUF files: the format itself names only
/// one eos and one eot.
constexpr std::array<std::string_view, 9> kEnds = {"<|eot_id|>",    "<|eom_id|>",    "<|end_of_text|>",
                                                   "<|im_end|>",    "<|endoftext|>", "<|end|>",
                                                   "<end_of_turn>", "<EOT>",         "<|end_of_turn|>"};

SpmPieceType type_of(const GgufTokenizer& gguf, size_t i) {
    if (gguf.token_types.empty()) return SpmPieceType::kNormal;
    const int32_t type = gguf.token_types[i];
    require(type >= 1 && type <= 6, Exit::kData, "{}: token {} has the type {}, 1 to 6 are known", gguf.what, i, type);
    return static_cast<SpmPieceType>(type);
}

void check_sizes(const GgufTokenizer& gguf) {
    const size_t vocab = gguf.tokens.size();
    require(vocab > 0 && vocab <= static_cast<size_t>(limits::kVocab), Exit::kData,
            "{}: a vocabulary of {} tokens, 1 to {} are allowed", gguf.what, vocab, limits::kVocab);
    require(gguf.token_types.empty() || gguf.token_types.size() == vocab, Exit::kData,
            "{}: {} token types for {} tokens", gguf.what, gguf.token_types.size(), vocab);
    require(gguf.scores.empty() || gguf.scores.size() == vocab, Exit::kData, "{}: {} token scores for {} tokens",
            gguf.what, gguf.scores.size(), vocab);
    for (size_t i = 0; i < vocab; ++i)
        require(gguf.tokens[i].size() <= kPieceBytes, Exit::kData, "{}: token {} has {} bytes, at most {} are read",
                gguf.what, i, gguf.tokens[i].size(), kPieceBytes);
}

int32_t checked_id(const GgufTokenizer& gguf, const char* key, int64_t id) {
    if (id >= -1 && id < static_cast<int64_t>(gguf.tokens.size())) return static_cast<int32_t>(id);
    log::debug("{}: {} {} is not in the vocabulary of {}; it is ignored", gguf.what, key, id, gguf.tokens.size());
    return -1;
}

/// The table with added tokens, bos and eos, which both models share. Pieces remain empty.
TokenTable table_of(const GgufTokenizer& gguf, bool add_bos) {
    TokenTable table;
    table.pieces.resize(gguf.tokens.size());
    std::vector<int64_t> ends;
    for (size_t i = 0; i < gguf.tokens.size(); ++i) {
        const SpmPieceType type = type_of(gguf, i);
        const bool user = type == SpmPieceType::kUserDefined;
        const bool special = type == SpmPieceType::kControl || type == SpmPieceType::kUnknown;
        const std::string& text = gguf.tokens[i];
        if ((!user && !special) || !is_utf8(text)) continue;
        // SpmTokenizer itself finds user-defined pieces with spaces.
        if (user && gguf.model == "llama" && text.find(kSpmSpace) != std::string::npos) continue;
        AddedToken token;
        token.text = text;
        token.id = static_cast<int32_t>(i);
        token.special = special;
        table.added.push_back(std::move(token));
        if (std::find(kEnds.begin(), kEnds.end(), text) != kEnds.end()) ends.push_back(static_cast<int64_t>(i));
    }
    table.bos = checked_id(gguf, "bos_token_id", gguf.bos);
    table.eos = checked_id(gguf, "eos_token_id", gguf.eos);
    if (checked_id(gguf, "eot_token_id", gguf.eot) >= 0) ends.push_back(gguf.eot);
    if (checked_id(gguf, "eom_token_id", gguf.eom) >= 0) ends.push_back(gguf.eom);
    table.set_ends(ends, gguf.what);
    if (gguf.add_bos.value_or(add_bos) && table.bos >= 0) table.before = {table.bos};
    if (gguf.add_eos.value_or(false) && table.eos >= 0) table.after = {table.eos};
    return table;
}

std::unique_ptr<Tokenizer> make_spm(const GgufTokenizer& gguf) {
    require(gguf.precompiled_charsmap.empty() && !gguf.remove_extra_whitespaces, Exit::kData,
            "{}: a 'llama' tokenizer that normalises its text is not supported", gguf.what);
    require(!gguf.scores.empty(), Exit::kData, "{}: tokenizer.ggml.scores is missing", gguf.what);
    std::vector<SpmPiece> pieces;
    for (size_t i = 0; i < gguf.tokens.size(); ++i)
        pieces.push_back({gguf.tokens[i], gguf.scores[i], type_of(gguf, i)});
    check_spm_pieces(pieces, gguf.what);
    TokenTable table = table_of(gguf, /*add_bos=*/true);
    for (size_t i = 0; i < pieces.size(); ++i) table.pieces[i] = text_of(pieces[i]);
    if (gguf.add_space_prefix.value_or(true)) table.prefix = PrefixSpace::kAfterTokens;
    return std::make_unique<SpmTokenizer>(std::move(table), pieces);
}

TextIds ids_by_text(const GgufTokenizer& gguf) {
    TextIds ids;
    ids.reserve(gguf.tokens.size());
    for (size_t i = 0; i < gguf.tokens.size(); ++i) {
        const bool first = gguf.tokens[i].empty() || ids.emplace(gguf.tokens[i], static_cast<int32_t>(i)).second;
        require(first, Exit::kData, "{}: token {} '{}' is there twice", gguf.what, i, shown(gguf.tokens[i]));
    }
    return ids;
}

/// [vocab] True for added tokens whose letters, read as GPT-2's byte alphabet, stand for other bytes, or for none. They
/// are only found as text, and no merge may use them.
std::vector<bool> apart_of(const TokenTable& table) {
    std::vector<bool> apart(table.pieces.size());
    for (const AddedToken& token : table.added)
        apart[index(token.id)] = bytes_from_byte_level(token.text) != token.text;
    return apart;
}

// A pair that is listed twice keeps its first rank, as in llama.cpp.
PairTable merges_of(const GgufTokenizer& gguf, const TextIds& ids, const std::vector<bool>& apart) {
    PairTable table(gguf.merges.size());
    for (size_t rank = 0; rank < gguf.merges.size(); ++rank) {
        const std::string& merge = gguf.merges[rank];
        const size_t space = merge.find(' ', 1);
        require(space != std::string::npos, Exit::kData, "{}: merge {} is '{}', expected two tokens", gguf.what, rank,
                shown(merge));
        const auto id_of = [&](const std::string& token) {
            const auto found = ids.find(token);
            require(found != ids.end(), Exit::kData,
                    "{}: merge {} needs the token '{}', which is not in the vocabulary", gguf.what, rank, shown(token));
            require(!apart[index(found->second)], Exit::kData,
                    "{}: merge {} needs the token '{}', whose type says that its letters are no bytes", gguf.what, rank,
                    shown(token));
            return found->second;
        };
        const std::string left = merge.substr(0, space);
        const std::string right = merge.substr(space + 1);
        const int32_t left_id = id_of(left);
        const int32_t right_id = id_of(right);
        table.insert(left_id, right_id, {static_cast<uint32_t>(rank), id_of(left + right)});
    }
    return table;
}

std::unique_ptr<Tokenizer> make_bpe(const GgufTokenizer& gguf) {
    const PreRule& rule = rule_of(gguf);
    TokenTable table = table_of(gguf, rule.add_bos);
    BpeParts parts;
    for (const std::string_view pattern : rule.patterns) {
        if (!pattern.empty())
            parts.pre_tokenizers.push_back(
                split_at(Regex(pattern, gguf.what), SplitBehavior::kIsolated, /*invert=*/false));
    }
    parts.byte_level = true;
    parts.ignore_merges = rule.ignore_merges;
    parts.missing_separates = true;
    const std::vector<bool> apart = apart_of(table);
    parts.merges = merges_of(gguf, ids_by_text(gguf), apart);
    for (size_t i = 0; i < gguf.tokens.size(); ++i) {
        const std::optional<std::string> bytes = bytes_from_byte_level(gguf.tokens[i]);
        table.pieces[i] = bytes.value_or(gguf.tokens[i]);
        if (bytes && !bytes->empty() && !apart[i]) parts.ids.emplace(*bytes, static_cast<int32_t>(i));
    }
    for (const AddedToken& token : table.added) table.pieces[index(token.id)] = token.text;
    parts.byte_ids.fill(-1);
    for (size_t byte = 0; byte < parts.byte_ids.size(); ++byte) {
        const auto found = parts.ids.find(std::string(1, static_cast<char>(static_cast<uint8_t>(byte))));
        if (found != parts.ids.end()) parts.byte_ids[byte] = found->second;
    }
    return std::make_unique<BpeTokenizer>(table, std::move(parts));
}

}  // namespace

PreTokenizerPatterns pre_tokenizer_patterns(const GgufTokenizer& gguf) {
    const PreRule& rule = rule_of(gguf);
    PreTokenizerPatterns all = {.patterns = {}, .ignore_merges = rule.ignore_merges};
    for (const std::string_view pattern : rule.patterns) {
        if (!pattern.empty()) all.patterns.emplace_back(pattern);
    }
    return all;
}

std::span<const std::string_view> known_pre_tokenizers() {
    static const auto names = [] {
        std::array<std::string_view, std::tuple_size_v<std::decay_t<decltype(pre_rules())>>> all;
        std::ranges::transform(pre_rules(), all.begin(), &PreRule::name);
        return all;
    }();
    return names;
}

std::unique_ptr<Tokenizer> make_tokenizer(const GgufTokenizer& gguf) {
    check_sizes(gguf);
    if (gguf.model == "llama") return make_spm(gguf);
    if (gguf.model == "gpt2") return make_bpe(gguf);
    fail(Exit::kData, "{}: tokenizer.ggml.model '{}' is not supported (llama, gpt2 are)", gguf.what, shown(gguf.model));
}

}  // namespace trireme
