#pragma once
/// BpeTokenizer: the tokenizer of a tokenizer.json, and of GGUF files of the model "gpt2": byte-pair encoding with a
/// table of merges. It is byte-level (GPT-2, Llama 3), or of characters with byte pieces for the rest (Llama 2).

#include <array>
#include <string>
#include <unordered_map>

#include "model/tokenizer/cut_points.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/pair_table.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/token_table.h"

namespace trireme {

/// Lets TextIds be searched with a string_view.
struct TextHash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using TextIds = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;  // text -> id

/// What a BpeTokenizer is made of, besides its TokenTable.
struct BpeParts {
    std::string what;                                           // the source, for messages
    std::vector<Normalizer> normalizers;                        // applied first, in order
    std::vector<std::unique_ptr<PreTokenizer>> pre_tokenizers;  // applied next, in order

    bool byte_level = false;              // merges begin with bytes, not with characters
    TextIds ids;                          // ordinary tokens by text; if byte_level, by the bytes they stand for
    PairTable merges;                     // pairs of ids -> the id they become
    std::array<int32_t, 256> byte_ids{};  // the token of each byte; -1: none. Not byte_level: for byte fallback
    CutPoints cuts;                       // where a long word may be cut; empty: nowhere, as for byte_level
    bool ignore_merges = false;           // a word that is a token becomes that token, without merging
    int32_t unknown = -1;                 // the token for characters without a token; -1: these are left out
    bool fuse_unknown = false;            // one unknown token for a run of such characters
    bool missing_separates = false;       // left-out characters keep neighbours from merging (llama.cpp's rule)
};

class BpeTokenizer final : public TableTokenizer {
  public:
    BpeTokenizer(const TokenTable& table, BpeParts parts);

    bool keeps_every_byte() const override;

  private:
    LeftOut left_out_of_plain(std::string_view text) const override;
    void encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids) const override;
    /// Calls visit(word) for each word of a normalised text. `prefix`: as in encode_plain().
    template <class Visit>
    void for_each_word(std::string text, bool prefix, const Visit& visit) const;
    // These append to `ids` and use `merger` as scratch.
    void encode_words(std::string text, bool prefix, Merger& merger, std::vector<int32_t>& ids) const;
    void encode_word(std::string_view word, Merger& merger, std::vector<int32_t>& ids) const;
    void merge(std::string_view word, Merger& merger, std::vector<int32_t>& ids) const;  // a word, or a part of one

    BpeParts parts_;
    bool has_all_bytes_;
    TokenMatcher normalized_matcher_;  // finds added tokens in normalised text
};

}  // namespace trireme
