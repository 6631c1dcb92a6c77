#pragma once
/// Token ids of texts to score, by the rules of lm-evaluation-harness (neighbours.md, section 3).

#include <cstdint>
#include <string>
#include <vector>

#include "model/tokenizer/tokenizer.h"

namespace trireme {

/// The ids of a context and, from `begin` on, of its continuation.
struct Pair {
    std::vector<int32_t> ids;
    int64_t begin = 0;
    bool truncated = false;
    std::string error = {};  // the reason if it cannot be scored
};

/// The ids of a pair, as TemplateLM._encode_pair makes them. White space at the context's end belongs to the
/// continuation. The continuation's ids are those of the joined text after the number of ids that the context alone
/// has; they follow the context's own ids. An empty context becomes the prefix token, unless the continuation begins
/// with it. `add_special`: as encode_prompt, unless the text begins with BOS. Errors: Exit::kData for a continuation
/// without ids; as rolling_ids.
Pair encode_pair(const Tokenizer& tokenizer, std::string context, std::string continuation, bool add_special,
                 const std::string& where);

/// Drops the pair's first ids, so that it has at most `context` + 1; the last one is not computed. Errors: Exit::kData
/// for a continuation that leaves no room for an id of its context.
void cut_pair(Pair& pair, int64_t context, const std::string& where);

/// The ids of a text that is scored whole: the prefix token (BOS, else EOS), then the text's ids with their own special
/// tokens. Errors: Exit::kData for a tokenizer without prefix token, and for a text without ids.
std::vector<int32_t> rolling_ids(const Tokenizer& tokenizer, const std::string& text, bool add_special,
                                 const std::string& where);

}  // namespace trireme
