#include "model/tokenizer/tokenizer_identity.h"

#include <algorithm>

#include "model/files/keys.h"
#include "model/files/limits.h"
#include "model/files/store/digest.h"

namespace trireme {
namespace {

/// This must never change: files hold digests of its ids. Pre-tokenizers, normalizers and byte tokens differ on it.
constexpr std::string_view kProbe =
    "In the beginning, it's 1234567 o'clock;  DON'T stop \t\ttabs\n\n\nlines\r\n   x = f(a_b[0], 3.14) // "
    "\xE2\x80\x94\n"
    "na\xC3\xAFve cafe\xCC\x81 \xC3\x9Cn\xC3\xAF"
    "code \xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C "
    "\xD0\x9C\xD0\xB8\xD1\x80 \xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D \xE2\x96\x81 "
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80 "
    "\xC2\xA0\xEF\xAC\x81 \x01\xFF\xFE</s> <s>[INST] <|endoftext|><|im_start|> end ";

void add(Digest& digest, const void* bytes, size_t n) {
    digest.add({static_cast<const std::byte*>(bytes), n});
}

void add_ids(Digest& digest, const Tokenizer& tokenizer, std::string_view text) {
    const std::vector<int32_t> ids = tokenizer.encode(text, /*add_special=*/false);
    const auto n = static_cast<int64_t>(ids.size());
    add(digest, &n, sizeof n);
    add(digest, ids.data(), ids.size() * sizeof(int32_t));
}

/// Reads an id of the vocabulary; also -1 with `or_none`.
int32_t id_of(const Json& json, const char* key, int64_t vocab, bool or_none, std::string_view where) {
    const bool whole =
        json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > limits::kVocab);
    const int64_t id = whole ? json.get<int64_t>() : -2;
    require(id >= (or_none ? -1 : 0) && id < vocab, Exit::kData, "{}: '{}' has {}, an id below {} was expected", where,
            key, Keys::text(json), vocab);
    return static_cast<int32_t>(id);
}

std::vector<int32_t> ids_of(const Keys& keys, const char* key, int64_t vocab, std::string_view where) {
    const Json* const list = keys.find(key);
    require(list != nullptr && list->is_array() && list->size() <= limits::kEosTokens, Exit::kData,
            "{}: '{}' is no list of up to {} ids", where, key, limits::kEosTokens);
    std::vector<int32_t> ids;
    for (const Json& id : *list) ids.push_back(id_of(id, key, vocab, /*or_none=*/false, where));
    return ids;
}

}  // namespace

TokenizerIdentity TokenizerIdentity::of(const Tokenizer& t) {
    TokenizerIdentity is = {.vocab = t.vocab(),
                            .bos = t.bos(),
                            .eos = t.eos(),
                            .ends = t.eos_ids(),
                            .around = t.encode("", /*add_special=*/true)};
    Digest pieces, special, probe;
    std::string all;
    for (int32_t id = 0; id < is.vocab; ++id) {
        const std::string piece = t.piece(id);
        const auto n = static_cast<int64_t>(piece.size());
        add(pieces, &n, sizeof n);
        add(pieces, piece.data(), piece.size());
        const auto control = static_cast<uint8_t>(t.is_special(id) ? 1 : 0);
        add(special, &control, 1);
        all += piece + '\n';
    }
    add_ids(probe, t, kProbe);
    add_ids(probe, t, all);
    is.pieces = pieces.value();
    is.special = special.value();
    is.probe = probe.value();
    return is;
}

TokenizerIdentity TokenizerIdentity::from_json(const Json& json, std::string_view where) {
    const Keys keys(json, where);
    TokenizerIdentity is;
    is.vocab = keys.required(keys.integer("vocab"), "vocab");
    require(is.vocab >= 1 && is.vocab <= limits::kVocab, Exit::kData, "{}: a vocabulary of {} tokens", where, is.vocab);
    is.pieces = keys.digest("pieces");
    is.special = keys.digest("special");
    is.probe = keys.digest("probe");
    for (const auto& [key, id] : {std::pair{"bos", &is.bos}, {"eos", &is.eos}}) {
        const Json* const found = keys.find(key);
        require(found != nullptr, Exit::kData, "{}: '{}' is missing", where, key);
        *id = id_of(*found, key, is.vocab, /*or_none=*/true, where);
    }
    is.ends = ids_of(keys, "ends", is.vocab, where);
    is.around = ids_of(keys, "around", is.vocab, where);
    return is;
}

Json TokenizerIdentity::to_json() const {
    return {{"vocab", vocab}, {"pieces", hex(pieces)}, {"special", hex(special)}, {"bos", bos},
            {"eos", eos},     {"ends", ends},          {"around", around},        {"probe", hex(probe)}};
}

std::string TokenizerIdentity::difference(const TokenizerIdentity& other) const {
    const auto list = [](const std::vector<int32_t>& ids) { return fmt::format("[{}]", fmt::join(ids, ", ")); };
    if (vocab != other.vocab) return fmt::format("its vocabulary has {} tokens, not {}", vocab, other.vocab);
    if (pieces != other.pieces) return "the texts of its tokens are others";
    if (special != other.special) return "other tokens are control tokens";
    if (bos != other.bos) return fmt::format("its BOS is {}, not {}", bos, other.bos);
    if (eos != other.eos) return fmt::format("its EOS is {}, not {}", eos, other.eos);
    if (ends != other.ends) return fmt::format("texts end with {}, not {}", list(ends), list(other.ends));
    if (around != other.around) {
        return fmt::format("special tokens around a text are {}, not {}", list(around), list(other.around));
    }
    if (probe != other.probe) return "its rules cut texts in another way";
    return "";
}

}  // namespace trireme
