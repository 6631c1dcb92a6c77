#pragma once
/// Readers of the components of tokenizer.json other than the model (vocabulary and merges); tokenizer_json.h puts them
/// together. `what` names the file. All errors: Exit::kData naming the component.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/json.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/tokenizer/token_table.h"

namespace trireme {

/// Component `normalizer`.
struct NormalizerParts {
    std::vector<Normalizer> steps;            // in order
    PrefixSpace prefix = PrefixSpace::kNone;  // kAfterTokens if U+2581 or a space is put before the text
    bool moves_start = false;                 // the first character may get lost or become several
};
/// `value`: null if the file has no normalizer.
NormalizerParts read_normalizer(const Json* value, std::string_view what);

/// Component `pre_tokenizer`.
struct PreTokenizerParts {
    std::vector<std::unique_ptr<PreTokenizer>> steps;  // in order
    bool byte_level = false;                           // its last step is ByteLevel
    PrefixSpace prefix = PrefixSpace::kNone;           // kAtStart: of the text as it was before normalisation
};
/// `value`: null if the file has no pre_tokenizer.
PreTokenizerParts read_pre_tokenizer(const Json* value, std::string_view what);

/// Component `decoder`: how the tokens' texts become the bytes of a text.
struct DecoderParts {
    bool byte_fallback = false;            // "<0x0A>" is a byte
    std::vector<Normalizer> replacements;  // of the other tokens' texts, in order
};
/// `value`: null if the file has no decoder.
DecoderParts read_decoder(const Json* value, std::string_view what);

/// Component `post_processor`: the ids of special tokens that it puts around one text.
struct TemplateParts {
    std::vector<int32_t> before, after;
};
/// `value`: null if the file has no post_processor. Ids must be in [0, vocab).
TemplateParts read_post_processor(const Json* value, std::string_view what, int64_t vocab);

/// Reads `added_tokens`; null: none. Ids are in [0, limits::kVocab), none twice.
std::vector<AddedToken> read_added_tokens(const Json* value, std::string_view what);

}  // namespace trireme
