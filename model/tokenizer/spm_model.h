#pragma once
/// SpmModel: the content of a tokenizer.model (a SentencePiece ModelProto). Our own bounded reader checks it before
/// libsentencepiece reads it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Values as in the file format, and in a GGUF file's token types.
enum class SpmPieceType : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

/// A token, as the file writes it: U+2581 is a space, "<0x0A>" of type kByte a byte.
struct SpmPiece {
    std::string text;
    float score = 0;  // higher: joined first
    SpmPieceType type = SpmPieceType::kNormal;
};

struct SpmModel {
    static constexpr uint64_t kUnigram = 1, kBpe = 2;  // values of model_type

    std::vector<SpmPiece> pieces;  // [vocab]

    // Fields of the trainer_spec; defaults are the format's.
    uint64_t model_type = kUnigram;
    bool byte_fallback = false;  // characters without a piece become byte pieces
    bool treat_whitespace_as_suffix = false;
    std::string bos_piece = "<s>", eos_piece = "</s>";

    // Fields of the normalizer_spec.
    std::string charsmap;                  // precompiled: a double array, then the texts it maps to; may be empty
    bool add_dummy_prefix = true;          // a space before the text
    bool remove_extra_whitespaces = true;  // of the text
    bool escape_whitespaces = true;        // spaces become U+2581
    bool has_denormalizer = false;         // the file has a character map for decoding
};

/// Checks what all users of pieces rely on: 1 byte to 4 KiB of UTF-8 without NUL, none twice, finite scores, all 256
/// byte pieces and U+2581, which is neither a control piece nor the unknown one. Errors: Exit::kData naming `what` and
/// the first piece that is wrong.
void check_spm_pieces(const std::vector<SpmPiece>& pieces, std::string_view what);

/// Reads the content of a file and checks it: at most 2^21 pieces that pass check_spm_pieces(), one of them the unknown
/// one; byte fallback; no rule that is not implemented; a normalizer_spec; a character map that passes
/// check_charsmap(), or none. Unknown fields are skipped. Errors: Exit::kData naming `what` and the first error.
SpmModel read_spm_model(std::string_view file, std::string_view what);

/// Returns the bytes that a piece represents inside a text; for a control or unknown piece its name.
std::string text_of(const SpmPiece& piece);

/// Returns a ModelProto with the pieces and the fields on which encoding depends, and no others. libsentencepiece gets
/// these bytes, never those of the file.
std::string serialize(const SpmModel& model);

/// Checks a character map for read_spm_model(): every walk through the double array must stay inside it, and end in a
/// text of at most 1 KiB that lies inside the map. Errors: Exit::kData.
void check_charsmap(std::string_view charsmap, std::string_view what);

}  // namespace trireme
