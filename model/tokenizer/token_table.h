#pragma once
/// TokenTable, TableTokenizer: what all tokenizers share: the bytes of each id, added tokens, special tokens, and the
/// functions that need only these.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/token_matcher.h"
#include "model/tokenizer/tokenizer.h"
#include "runtime/index.h"

namespace trireme {

/// The most bytes of a token's text in any file.
inline constexpr size_t kPieceBytes = 4096;

/// How SentencePiece writes a space.
inline constexpr std::string_view kSpmSpace = "\u2581";

/// Where encoding adds a space that the text does not have, and decode() removes it again.
enum class PrefixSpace {
    kNone,
    kAtStart,      // before a text that does not begin with an added token
    kAfterTokens,  // also before the text after each added token
};

struct TokenTable {
    std::vector<std::string> pieces;     // [vocab] the bytes each id represents inside a text
    std::vector<AddedToken> added;       // tokens found as text; also those with `normalized`
    int32_t bos = -1, eos = -1;          // -1: none
    std::vector<int32_t> eos_ids;        // all ids that end a sequence, ascending; eos is one of them
    std::vector<int32_t> before, after;  // the tokens that add_special puts around a text
    PrefixSpace prefix = PrefixSpace::kNone;

    /// Returns the id of the added token with this text; -1 if there is none.
    int32_t id_of_added(std::string_view text) const;
    /// Sets eos_ids to eos and `ends`; ids outside [0, vocab) are ignored. `what`: the source, for the log.
    void set_ends(const std::vector<int64_t>& ends, std::string_view what);
};

/// A tokenizer over a table; the derived class encodes the text before, between and after added tokens.
class TableTokenizer : public Tokenizer {
  public:
    std::vector<int32_t> encode(std::string_view text, bool add_special) const override;
    std::string piece(int32_t id) const override;
    std::string decode(std::span<const int32_t> ids) const override;
    LeftOut left_out(std::string_view text) const override;
    int64_t vocab() const override { return static_cast<int64_t>(table_.pieces.size()); }
    int32_t bos() const override { return table_.bos; }
    int32_t eos() const override { return table_.eos; }
    std::vector<int32_t> eos_ids() const override { return table_.eos_ids; }
    bool is_special(int32_t id) const override;

  protected:
    /// Every id of the table must be in [0, vocab).
    explicit TableTokenizer(TokenTable table);

    /// Appends to `ids` the ids of a text without added tokens (other than those with `normalized`). `prefix`: the
    /// table's PrefixSpace requires a space before this text.
    virtual void encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids) const = 0;
    /// Returns the bytes that encode_plain() leaves out of such a text; `offset` counts from its start.
    virtual LeftOut left_out_of_plain(std::string_view) const { return {}; }

  private:
    bool is_added(int32_t id) const { return id >= 0 && id < vocab() && is_added_[index(id)]; }

    TokenTable table_;
    TokenMatcher matcher_;          // finds added tokens in the raw text
    std::vector<bool> is_added_;    // [vocab]
    std::vector<bool> is_special_;  // [vocab]
};

}  // namespace trireme
