#pragma once
/// SpmTokenizer: the tokenizer of a GGUF file of the model "llama": SentencePiece's BPE without its library. It joins
/// neighbours to pieces, the best score first.

#include <array>
#include <string>

#include "model/tokenizer/bpe_tokenizer.h"
#include "model/tokenizer/spm_model.h"
#include "model/tokenizer/token_table.h"

namespace trireme {

/// Gives the same ids as sentencepiece for BPE models. The pieces must pass check_spm_pieces().
class SpmTokenizer final : public TableTokenizer {
  public:
    /// `pieces` [vocab] are only read here; table.pieces are their bytes in a text.
    SpmTokenizer(TokenTable table, const std::vector<SpmPiece>& pieces);

  private:
    void encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids) const override;
    /// Appends the ids of a text with U+2581 for spaces and without user-defined pieces. `merger`: scratch.
    void encode_escaped(std::string_view text, Merger& merger, std::vector<int32_t>& ids) const;

    TextIds ids_;                          // normal and unused pieces: what joins can make, and single characters
    std::vector<uint32_t> ranks_;          // [vocab] 0 for the best score, equal for equal scores
    std::array<int32_t, 256> byte_ids_{};  // the piece of each byte
    CutPoints cuts_;                       // where a long text may be cut
    TokenMatcher user_defined_;            // user-defined pieces with a space, found in escaped text
    size_t longest_ = 0;                   // bytes of the longest text in ids_
};

}  // namespace trireme
