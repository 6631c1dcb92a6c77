#pragma once
/// SpmModel: a tokenizer.model (a SentencePiece ModelProto), checked by our own bounded reader before the library's.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Values as in the file format.
enum class SpmPieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct SpmPiece {
    std::string text;
    float score = 0;
    SpmPieceType type = SpmPieceType::kNormal;
};

struct SpmModel {
    static constexpr uint64_t kUnigram = 1, kBpe = 2;

    std::vector<SpmPiece> pieces;  // [vocab]

    uint64_t model_type = kUnigram;
    bool byte_fallback = false;
    bool treat_whitespace_as_suffix = false;
    std::string bos_piece = "<s>", eos_piece = "</s>";

    std::string charsmap;  // precompiled: a double array, then the texts it maps to
    bool add_dummy_prefix = true;
    bool remove_extra_whitespaces = true;
    bool escape_whitespaces = true;
    bool has_denormalizer = false;
};

/// Checks what all users of pieces rely on: 1 byte to 4 KiB of UTF-8 without NUL, none twice, finite scores, all 256
/// byte pieces and U+2581, which is neither a control piece nor the unknown one. Errors: Exit::kData naming `what` and
/// the first piece that is wrong.
void check_spm_pieces(const std::vector<SpmPiece>& pieces, std::string_view what);

/// Reads the file and checks it: at most 2^21 pieces that pass check_spm_pieces(), one of them the unknown one; byte
/// fallback; no rule that is not implemented; a normalizer_spec; a character map that passes check_charsmap(). Unknown
/// fields are skipped. Errors: Exit::kData naming `what` and the first error.
SpmModel read_spm_model(std::string_view file, std::string_view what);

/// Returns the bytes that a piece represents inside a text.
std::string text_of(const SpmPiece& piece);

/// Returns a ModelProto with these fields and no others. The library reads no other bytes.
std::string serialize(const SpmModel& model);

/// For read_spm_model. Errors: Exit::kData unless every walk through the double array stays inside it and ends in a
/// text of at most 1 KiB that lies inside the map.
void check_charsmap(std::string_view charsmap, std::string_view what);

}  // namespace trireme
