#pragma once
/// TokenTable: what all tokenizers share. It holds the pieces of ids, tokens written out in a text, and special tokens.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/token_matcher.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// The most bytes of a token's text in any file.
inline constexpr size_t kPieceBytes = 4096;

/// How SentencePiece writes a space.
inline constexpr std::string_view kSpmSpace = "\u2581";

/// Where encoding adds a space that the text does not have, and decoding removes it again.
enum class PrefixSpace {
    kNone,
    kAtStart,      // before the first word of a text
    kAfterTokens,  // also before the first word after each added token
};

struct TokenTable {
    std::vector<std::string> pieces;  // [vocab] the bytes each id represents inside a text
    std::vector<AddedToken> added;    // written out in texts; also those with `normalized`
    int32_t bos = -1, eos = -1;
    std::vector<int32_t> eos_ids;        // ascending, with eos
    std::vector<int32_t> before, after;  // the tokens that add_special puts around a text
    PrefixSpace prefix = PrefixSpace::kNone;

    /// The id of an added token's text; -1 if there is none.
    int32_t id_of_added(std::string_view text) const;
    /// `ends` joined with eos become eos_ids; those outside [0, vocab) are ignored.
    void set_ends(const std::vector<int64_t>& ends, std::string_view what);
};

/// A tokenizer over a table; the derived class encodes the text between added tokens.
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

    /// Appends the ids of a text without added tokens. `prefix`: the table's rule requires a space before it.
    virtual void encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids) const = 0;
    /// Returns the bytes that encode_plain() leaves out of such a text.
    virtual LeftOut left_out_of_plain(std::string_view) const { return {}; }

  private:
    bool is_added(int32_t id) const { return id >= 0 && id < vocab() && is_added_[static_cast<size_t>(id)]; }

    TokenTable table_;
    TokenMatcher matcher_;          // finds added tokens in the raw text
    std::vector<bool> is_added_;    // [vocab]
    std::vector<bool> is_special_;  // [vocab]
};

}  // namespace trireme
