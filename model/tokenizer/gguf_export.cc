#include "model/tokenizer/gguf_export.h"

#include <algorithm>
#include <map>
#include <memory>

#include "model/files/limits.h"
#include "model/files/shown.h"
#include "model/tokenizer/chat_template.h"
#include "model/tokenizer/json_fields.h"
#include "model/tokenizer/json_parts.h"
#include "model/tokenizer/same_ids.h"
#include "model/tokenizer/special_files.h"
#include "model/tokenizer/spm_model.h"
#include "model/tokenizer/utf8.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// Sets the token with this id; tokens in between are unused.
void set_token(GgufTokenizer& t, int64_t id, std::string text, SpmPieceType type, float score = 0) {
    for (auto n = static_cast<int64_t>(t.tokens.size()); n <= id; ++n) {
        t.tokens.push_back(fmt::format("[PAD{}]", n));
        t.token_types.push_back(static_cast<int32_t>(SpmPieceType::kUnused));
    }
    t.scores.resize(t.tokens.size(), -1e6F);  // byte-level BPE has dropped them
    const auto at = static_cast<size_t>(id);
    t.tokens[at] = std::move(text);
    t.token_types[at] = static_cast<int32_t>(type);
    t.scores[at] = score;
}

void set_added(GgufTokenizer& t, const std::vector<AddedToken>& added) {
    for (const AddedToken& a : added) {
        const bool there = index(a.id) < t.tokens.size() && t.tokens[index(a.id)] == a.text;
        if (there && t.token_types[index(a.id)] != static_cast<int32_t>(SpmPieceType::kNormal)) continue;
        set_token(t, a.id, a.text, a.special ? SpmPieceType::kControl : SpmPieceType::kUserDefined);
    }
}

GgufTokenizer from_spm(const std::string& file, const std::string& what, const SpecialFiles& files) {
    const SpmModel model = read_spm_model(file, what);
    require(model.model_type == SpmModel::kBpe, Exit::kData,
            "{}: a unigram model, which GGUF's 'llama' tokenizer is not; want -o NAME.h5 or a folder", what);
    GgufTokenizer t;
    t.model = "llama";
    t.add_space_prefix = model.add_dummy_prefix;
    t.remove_extra_whitespaces = model.remove_extra_whitespaces;
    t.precompiled_charsmap.assign(model.charsmap.begin(), model.charsmap.end());
    for (size_t i = 0; i < model.pieces.size(); ++i) {
        const SpmPiece& p = model.pieces[i];
        set_token(t, static_cast<int64_t>(i), p.text, p.type, p.score);
        if (p.type == SpmPieceType::kUnknown) t.unk = static_cast<int64_t>(i);
    }
    set_added(t, files.added);
    return t;
}

/// The merges as "left right".
std::vector<std::string> merges_of(const JsonFields& model) {
    std::vector<std::string> merges;
    for (const Json& merge : model.list("merges")) {
        merges.push_back(merge.is_string() ? merge.get<std::string>()
                                           : merge.at(0).get<std::string>() + " " + merge.at(1).get<std::string>());
    }
    return merges;
}

/// Scores by which SentencePiece's rule (the pair with the best result first) makes the same merges as ranks of pairs
/// do: merges with one result must follow each other.
void score_by_merges(GgufTokenizer& t, const std::string& what) {
    std::map<std::string, float, std::less<>> scores;
    std::string last;
    for (const std::string& merge : t.merges) {
        const size_t space = merge.find(' ');
        const std::string result = merge.substr(0, space) + merge.substr(space + 1);
        if (result == last) continue;
        const bool first = scores.emplace(result, -static_cast<float>(scores.size() + 1)).second;
        require(first, Exit::kData,
                "{}: merges to '{}' are not together, so no scores give their order; want a tokenizer.model next to "
                "it, or -o NAME.h5",
                what, shown(result));
        last = result;
    }
    for (size_t i = 0; i < t.tokens.size(); ++i) {
        const auto it = scores.find(t.tokens[i]);
        const bool normal = t.token_types[i] == static_cast<int32_t>(SpmPieceType::kNormal);
        if (normal) t.scores[i] = it == scores.end() ? -1e6F : it->second;
    }
    t.merges.clear();
}

/// `root`: a tokenizer.json that tokenizer_from_json() accepts.
GgufTokenizer from_json(const JsonFields& root, bool byte_level, const SpecialFiles& files) {
    const std::string& what = root.where();
    const JsonFields model = root.object("model");
    GgufTokenizer t;
    t.model = byte_level ? "gpt2" : "llama";
    const bool fallback = model.flag("byte_fallback", false);
    for (const auto& [text, id] : model.need("vocab").items()) {
        const bool is_byte = fallback && text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
        set_token(t, id.get<int64_t>(), text, is_byte ? SpmPieceType::kByte : SpmPieceType::kNormal);
    }
    t.merges = merges_of(model);
    if (const auto unknown = model.optional_text("unk_token")) {
        const auto it = std::ranges::find(t.tokens, *unknown);
        if (it != t.tokens.end()) {
            t.unk = it - t.tokens.begin();
            if (!byte_level) t.token_types[index(t.unk)] = static_cast<int32_t>(SpmPieceType::kUnknown);
        }
    }
    std::vector<AddedToken> added = read_added_tokens(root.find("added_tokens"), what);
    added.insert(added.end(), files.added.begin(), files.added.end());
    set_added(t, added);
    if (byte_level) {
        t.scores.clear();
    } else {
        score_by_merges(t, what);
    }
    return t;
}

}  // namespace

GgufTokenizer export_tokenizer(const Tokenizer& own, const TextOf& text_of, int64_t vocab, const std::string& what) {
    const SpecialFiles files = read_special_files(what, text_of);
    const auto text = text_of("tokenizer.json", limits::kTokenizerBytes);
    const auto spm = text_of("tokenizer.model", limits::kTokenizerBytes);
    require(text || spm, Exit::kNoInput, "{}: no tokenizer.json or tokenizer.model", what);
    const Json json = text ? parse_json(*text, what, {.depth = 64, .bytes = limits::kTokenizerBytes}) : Json::object();
    const JsonFields root(json, what);
    const bool byte_level = read_pre_tokenizer(root.find("pre_tokenizer"), what).byte_level;
    GgufTokenizer t = spm && !byte_level ? from_spm(*spm, what, files) : from_json(root, byte_level, files);
    t.what = what;
    require(
        static_cast<int64_t>(t.tokens.size()) <= vocab, Exit::kData,
        "{}: a tokenizer of {} tokens for an embedding of {} rows; a GGUF file has one row for each, want -o NAME.h5 "
        "or a folder",
        what, t.tokens.size(), vocab);
    if (static_cast<int64_t>(t.tokens.size()) < vocab) {
        const int64_t last = vocab - 1;
        set_token(t, last, fmt::format("[PAD{}]", last), SpmPieceType::kUnused, -1e6F);
        if (t.model == "gpt2") t.scores.clear();
    }
    const std::vector<int32_t> around = own.encode("", true);
    t.bos = own.bos() < 0 && !around.empty() ? around.front() : own.bos();
    t.eos = own.eos();
    for (const int32_t id : own.eos_ids()) {
        if (id == t.eos) continue;
        if (t.eot < 0) {
            t.eot = id;
        } else if (t.eom < 0) {
            t.eom = id;
        } else {
            log::warn("{}: token {} also ends a sequence, which the GGUF file does not say: it has three such keys",
                      what, id);
        }
    }
    t.add_bos = t.bos >= 0 && !around.empty() && around.front() == t.bos;
    t.add_eos = t.eos >= 0 && around.size() > (*t.add_bos ? 1U : 0U) && around.back() == t.eos;

    IdDifference best;
    for (const std::string_view pre : known_pre_tokenizers()) {
        t.pre = t.model == "gpt2" ? pre : "";
        const auto tokenizer = make_tokenizer(t);
        const auto differs = first_difference(own, *tokenizer);
        if (!differs) {
            if (composes_letters(own)) {
                log::warn(
                    "{}: its tokenizer normalises text (NFC), which GGUF's does not: decomposed letters get other ids",
                    what);
            }
            return t;
        }
        if (differs->equal > best.equal) best = *differs;
        if (t.model != "gpt2") break;
    }
    fail(Exit::kData,
         "{}: GGUF's '{}' tokenizer{} gives '{}' other ids than this one; want -o NAME.h5 or a folder, which keep its "
         "files",
         what, t.model, t.model == "gpt2" ? " with a known 'pre'" : "", shown(best.text));
}

GgufEntries tokenizer_entries(const GgufTokenizer& t, const TextOf& text_of) {
    GgufEntries e;
    const auto key = [](const char* name) { return fmt::format("tokenizer.ggml.{}", name); };
    const auto id = [&](const char* name, int64_t value) {
        if (value >= 0) e.u32(key(name), static_cast<uint32_t>(value));
    };
    e.string(key("model"), t.model);
    if (!t.pre.empty()) e.string(key("pre"), t.pre);
    e.strings(key("tokens"), t.tokens);
    if (!t.scores.empty()) e.f32s(key("scores"), t.scores);
    e.i32s(key("token_type"), t.token_types);
    if (!t.merges.empty()) e.strings(key("merges"), t.merges);
    id("bos_token_id", t.bos);
    id("eos_token_id", t.eos);
    id("eot_token_id", t.eot);
    id("eom_token_id", t.eom);
    id("unknown_token_id", t.unk);
    if (t.add_bos) e.boolean(key("add_bos_token"), *t.add_bos);
    if (t.add_eos) e.boolean(key("add_eos_token"), *t.add_eos);
    if (t.add_space_prefix) e.boolean(key("add_space_prefix"), *t.add_space_prefix);
    if (const auto chat = read_chat_template(t.what, text_of)) {
        e.string("tokenizer.chat_template", chat->source);
        if (!chat->with_tools.empty()) e.string("tokenizer.chat_template.tool_use", chat->with_tools);
    }
    return e;
}

}  // namespace trireme
