#pragma once
/// SpmTokenizer: SentencePiece's BPE without its library. It joins neighbours to pieces, the best score first.

#include <array>
#include <string>

#include "model/tokenizer/bpe_tokenizer.h"
#include "model/tokenizer/spm_model.h"
#include "model/tokenizer/token_table.h"

namespace trireme {

/// Gives the same ids as sentencepiece for BPE models. The pieces must pass check_spm_pieces().
class SpmTokenizer final : public TableTokenizer {
  public:
    SpmTokenizer(TokenTable table, const std::vector<SpmPiece>& pieces);

  private:
    void encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids) const override;
    /// `text` has its spaces escaped and no user-defined piece in it.
    void encode_escaped(std::string_view text, Merger& merger, std::vector<int32_t>& ids) const;

    TextIds ids_;                  // pieces that joins can make, and single characters
    std::vector<uint32_t> ranks_;  // [vocab] 0 for the best score, equal for equal ones
    std::array<int32_t, 256> byte_ids_{};
    CutPoints cuts_;
    TokenMatcher user_defined_;  // pieces with a space, found in escaped text
    size_t longest_ = 0;         // bytes of the longest piece
};

}  // namespace trireme
