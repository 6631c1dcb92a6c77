#include "model/tokenizer/spm_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>

#include "model/files/limits.h"
#include "model/files/shown.h"
#include "model/tokenizer/byte_level.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/token_table.h"
#include "model/tokenizer/utf8.h"
#include "model/tokenizer/wire.h"
#include "runtime/error.h"

namespace trireme {
namespace {

// Field numbers of sentencepiece_model.proto.
namespace model_field {
constexpr uint32_t kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
}
namespace piece_field {
constexpr uint32_t kText = 1, kScore = 2, kType = 3;
}
namespace trainer_field {
constexpr uint32_t kModelType = 3, kWhitespaceSuffix = 24, kByteFallback = 35, kBosPiece = 46, kEosPiece = 47;
}
namespace normalizer_field {
constexpr uint32_t kCharsmap = 2, kDummyPrefix = 3, kRemoveExtra = 4, kEscape = 5;
}

SpmPiece read_piece(std::string_view bytes, std::string_view what, size_t index) {
    SpmPiece piece;
    uint64_t type = static_cast<uint64_t>(piece.type);
    for (WireReader reader(bytes, what); reader.next();) {
        if (reader.field() == piece_field::kText) piece.text = reader.bytes();
        if (reader.field() == piece_field::kScore) piece.score = std::bit_cast<float>(reader.fixed32());
        if (reader.field() == piece_field::kType) type = reader.varint();
    }
    require(type >= 1 && type <= 6, Exit::kData, "{}: piece {} has the type {}, 1 to 6 are known", what, index, type);
    piece.type = static_cast<SpmPieceType>(type);
    return piece;
}

void read_trainer(std::string_view bytes, std::string_view what, SpmModel& model) {
    for (WireReader reader(bytes, what); reader.next();) {
        const uint32_t field = reader.field();
        if (field == trainer_field::kModelType) model.model_type = reader.varint();
        if (field == trainer_field::kWhitespaceSuffix) model.treat_whitespace_as_suffix = reader.varint() != 0;
        if (field == trainer_field::kByteFallback) model.byte_fallback = reader.varint() != 0;
        if (field == trainer_field::kBosPiece) model.bos_piece = reader.bytes();
        if (field == trainer_field::kEosPiece) model.eos_piece = reader.bytes();
    }
}

void read_normalizer(std::string_view bytes, std::string_view what, SpmModel& model) {
    for (WireReader reader(bytes, what); reader.next();) {
        const uint32_t field = reader.field();
        if (field == normalizer_field::kCharsmap) model.charsmap = reader.bytes();
        if (field == normalizer_field::kDummyPrefix) model.add_dummy_prefix = reader.varint() != 0;
        if (field == normalizer_field::kRemoveExtra) model.remove_extra_whitespaces = reader.varint() != 0;
        if (field == normalizer_field::kEscape) model.escape_whitespaces = reader.varint() != 0;
    }
}

bool has_charsmap(std::string_view normalizer, std::string_view what) {
    SpmModel only;
    read_normalizer(normalizer, what, only);
    return !only.charsmap.empty();
}

void check_piece(const SpmPiece& piece, std::string_view what, size_t index) {
    const std::string& text = piece.text;
    require(!text.empty() && text.size() <= kPieceBytes, Exit::kData, "{}: piece {} has {} bytes, 1 to {} are allowed",
            what, index, text.size(), kPieceBytes);
    require(is_utf8(text) && text.find('\0') == std::string::npos, Exit::kData, "{}: piece {} '{}' is not UTF-8 text",
            what, index, shown(text));
    require(std::isfinite(piece.score), Exit::kData, "{}: the score of piece {} '{}' is {}", what, index, shown(text),
            piece.score);
    require(piece.type != SpmPieceType::kByte || byte_of_piece(text) >= 0, Exit::kData,
            "{}: byte piece {} is '{}', expected <0x00> to <0xFF>", what, index, shown(text));
}

void check_rules(const SpmModel& model, std::string_view what) {
    require(model.model_type == SpmModel::kUnigram || model.model_type == SpmModel::kBpe, Exit::kData,
            "{}: model_type {} is not supported (1, unigram, and 2, BPE, are)", what, model.model_type);
    require(!model.treat_whitespace_as_suffix, Exit::kData, "{}: treat_whitespace_as_suffix is not supported", what);
    require(model.escape_whitespaces, Exit::kData, "{}: escape_whitespaces=false is not supported", what);
    require(!model.has_denormalizer, Exit::kData, "{}: a denormalizer is not supported", what);
    require(model.byte_fallback, Exit::kData, "{}: byte_fallback=false: text outside the vocabulary would be lost",
            what);
    const auto unknown = std::count_if(model.pieces.begin(), model.pieces.end(),
                                       [](const SpmPiece& piece) { return piece.type == SpmPieceType::kUnknown; });
    require(unknown == 1, Exit::kData, "{}: {} pieces of type unknown, expected one", what, unknown);
    if (!model.charsmap.empty()) check_charsmap(model.charsmap, what);
}

}  // namespace

void check_spm_pieces(const std::vector<SpmPiece>& pieces, std::string_view what) {
    std::unordered_set<std::string_view> texts;
    size_t bytes = 0;
    bool has_space = false;
    for (size_t i = 0; i < pieces.size(); ++i) {
        const SpmPiece& piece = pieces[i];
        check_piece(piece, what, i);
        require(texts.insert(piece.text).second, Exit::kData, "{}: piece {} '{}' is there twice", what, i,
                shown(piece.text));
        const bool special = piece.type == SpmPieceType::kControl || piece.type == SpmPieceType::kUnknown;
        has_space |= piece.text == kSpmSpace && !special;
        bytes += piece.type == SpmPieceType::kByte ? 1 : 0;  // no piece is there twice, so 256 are all
    }
    require(bytes == 256, Exit::kData, "{}: {} of 256 byte pieces: text outside the vocabulary would be lost", what,
            bytes);
    require(has_space, Exit::kData, "{}: no piece for text is U+2581 (a space), expected one", what);
}

SpmModel read_spm_model(std::string_view file, std::string_view what) {
    SpmModel model;
    bool has_normalizer = false;
    for (WireReader reader(file, what); reader.next();) {
        if (reader.field() == model_field::kPieces) {
            require(model.pieces.size() < static_cast<size_t>(limits::kVocab), Exit::kData, "{}: more than {} pieces",
                    what, limits::kVocab);
            model.pieces.push_back(read_piece(reader.bytes(), what, model.pieces.size()));
        } else if (reader.field() == model_field::kTrainer) {
            read_trainer(reader.bytes(), what, model);
        } else if (reader.field() == model_field::kNormalizer) {
            has_normalizer = true;
            read_normalizer(reader.bytes(), what, model);
        } else if (reader.field() == model_field::kDenormalizer) {
            model.has_denormalizer |= has_charsmap(reader.bytes(), what);
        }
    }
    // Every trainer writes it, as the last field that is needed; the format's defaults would change what is encoded.
    require(has_normalizer, Exit::kData, "{}: there is no normalizer_spec: the file of {} bytes may be cut off", what,
            file.size());
    check_rules(model, what);
    check_spm_pieces(model.pieces, what);
    return model;
}

std::string text_of(const SpmPiece& piece) {
    if (piece.type == SpmPieceType::kByte)
        return std::string(1, static_cast<char>(static_cast<uint8_t>(byte_of_piece(piece.text))));
    if (piece.type == SpmPieceType::kControl || piece.type == SpmPieceType::kUnknown) return piece.text;
    return replace_text(std::string(kSpmSpace), " ")(piece.text);
}

std::string serialize(const SpmModel& model) {
    WireWriter out;
    for (const SpmPiece& piece : model.pieces) {
        WireWriter fields;
        fields.bytes(piece_field::kText, piece.text);
        fields.fixed32(piece_field::kScore, std::bit_cast<uint32_t>(piece.score));
        fields.varint(piece_field::kType, static_cast<uint64_t>(piece.type));
        out.bytes(model_field::kPieces, fields.text());
    }
    WireWriter trainer;
    trainer.varint(trainer_field::kModelType, model.model_type);
    trainer.varint(trainer_field::kByteFallback, model.byte_fallback ? 1 : 0);
    out.bytes(model_field::kTrainer, trainer.text());
    WireWriter normalizer;
    normalizer.bytes(normalizer_field::kCharsmap, model.charsmap);
    normalizer.varint(normalizer_field::kDummyPrefix, model.add_dummy_prefix ? 1 : 0);
    normalizer.varint(normalizer_field::kRemoveExtra, model.remove_extra_whitespaces ? 1 : 0);
    normalizer.varint(normalizer_field::kEscape, model.escape_whitespaces ? 1 : 0);
    out.bytes(model_field::kNormalizer, normalizer.text());
    return out.text();
}

}  // namespace trireme
