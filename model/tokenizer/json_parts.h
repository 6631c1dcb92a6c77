#pragma once
/// The components of tokenizer.json other than the model, as values. All errors: Exit::kData naming the component.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/json.h"
#include "model/tokenizer/bpe_tokenizer.h"
#include "model/tokenizer/token_table.h"

namespace trireme {

/// `normalizer`; null for none. `what` is the file.
struct NormalizerParts {
    std::vector<Normalizer> steps;
    PrefixSpace prefix = PrefixSpace::kNone;  // kAfterTokens if a U+2581 is put before the text
    bool moves_start = false;                 // the first character may get lost or become several
};
NormalizerParts read_normalizer(const Json* value, std::string_view what);

/// `pre_tokenizer`; null for none.
struct PreTokenizerParts {
    std::vector<std::unique_ptr<PreTokenizer>> steps;
    bool byte_level = false;
    PrefixSpace prefix = PrefixSpace::kNone;  // kAtStart: of the text as it was before normalisation
};
PreTokenizerParts read_pre_tokenizer(const Json* value, std::string_view what);

/// `decoder`: how the tokens' texts become the bytes of a text.
struct DecoderParts {
    bool byte_fallback = false;            // "<0x0A>" is a byte
    std::vector<Normalizer> replacements;  // in order
};
DecoderParts read_decoder(const Json* value, std::string_view what);

/// `post_processor`: the special tokens that it puts around one text. Ids are checked against [0, vocab).
struct TemplateParts {
    std::vector<int32_t> before, after;
};
TemplateParts read_post_processor(const Json* value, std::string_view what, int64_t vocab);

/// `added_tokens`. Ids are in [0, limits::kVocab), none twice.
std::vector<AddedToken> read_added_tokens(const Json* value, std::string_view what);

}  // namespace trireme
