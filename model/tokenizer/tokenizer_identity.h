#pragma once
/// TokenizerIdentity: a few numbers for everything that token ids depend on but the text. A file of ids (token_store.h)
/// holds it: tokenizers with equal identities are taken to give equal ids.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/json.h"
#include "model/tokenizer/tokenizer.h"

namespace trireme {

struct TokenizerIdentity {
    int64_t vocab = 0;            // one more than the largest id
    uint64_t pieces = 0;          // XXH3 of the bytes of every id, with their lengths, by id
    uint64_t special = 0;         // XXH3 of which ids are control tokens
    int32_t bos = -1, eos = -1;   // -1: none
    std::vector<int32_t> ends;    // every id that ends a sequence
    std::vector<int32_t> around;  // the tokens put around a text (BOS, EOS)
    uint64_t probe = 0;           // XXH3 of the ids of a fixed text, and of every piece as text: rules, merges

    /// Computes the identity of a tokenizer, for which it encodes some hundred kilobytes.
    static TokenizerIdentity of(const Tokenizer& tokenizer);
    /// Reads the result of to_json(). Errors: Exit::kData; `where` names the file.
    static TokenizerIdentity from_json(const Json& json, std::string_view where);
    Json to_json() const;

    /// Describes the first difference of this tokenizer ("its") from `other`: "its vocabulary has 49152 tokens, not
    /// 32000". Empty: there is none.
    std::string difference(const TokenizerIdentity& other) const;
};

}  // namespace trireme
