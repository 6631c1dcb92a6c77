#include "launch/commands/pair_ids.h"

#include <array>
#include <string_view>

#include "launch/run/prompt.h"
#include "runtime/error.h"

namespace trireme {
namespace {

/// The length of the text after Python's str.rstrip().
size_t without_blanks(std::string_view text) {
    constexpr std::array<std::string_view, 29> kBlanks = {
        " ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",   "\x1e",   "\x1f",
        "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
        "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
    for (bool more = true; more;) {
        more = false;
        for (const std::string_view blank : kBlanks) {
            if (!text.ends_with(blank)) continue;
            text.remove_suffix(blank.size());
            more = true;
        }
    }
    return text.size();
}

int32_t prefix_token(const Tokenizer& tokenizer, const std::string& where) {
    const int32_t prefix = tokenizer.bos() >= 0 ? tokenizer.bos() : tokenizer.eos();
    require(prefix >= 0, Exit::kData,
            "{}: the context has no tokens, and the tokenizer has none that begins or ends texts; give a context",
            where);
    return prefix;
}

/// Whether special tokens are added to a text: not if it begins with BOS.
bool adds(const Tokenizer& tokenizer, std::string_view text, bool add_special) {
    const std::string bos = tokenizer.bos() >= 0 ? tokenizer.piece(tokenizer.bos()) : "";
    return add_special && (bos.empty() || !text.starts_with(bos));
}

}  // namespace

Pair encode_pair(const Tokenizer& tokenizer, std::string context, std::string continuation, bool add_special,
                 const std::string& where) {
    const size_t end = without_blanks(context);
    continuation = context.substr(end) + continuation;
    context.resize(end);
    const bool special = adds(tokenizer, context, add_special);
    Pair pair = {.ids = encode_prompt(tokenizer, context, special && !context.empty())};
    std::vector<int32_t> whole;
    if (pair.ids.empty()) {
        const int32_t prefix = prefix_token(tokenizer, where);
        pair.ids = {prefix};
        whole = encode_prompt(tokenizer, context + continuation, /*add_special=*/false);
        if (whole.empty() || whole.front() != prefix) whole.insert(whole.begin(), prefix);
    } else {
        whole = encode_prompt(tokenizer, context + continuation, special);
    }
    pair.begin = static_cast<int64_t>(pair.ids.size());
    require(whole.size() > pair.ids.size(), Exit::kData, "{}: the continuation has no tokens", where);
    pair.ids.insert(pair.ids.end(), whole.begin() + pair.begin, whole.end());
    return pair;
}

void cut_pair(Pair& pair, int64_t context, const std::string& where) {
    const auto n = static_cast<int64_t>(pair.ids.size());
    const int64_t drop = n - (context + 1);
    if (drop <= 0) return;
    require(drop < pair.begin, Exit::kData, "{}: the continuation has {} tokens and the context {}: raise -c", where,
            n - pair.begin, context);
    pair.ids.erase(pair.ids.begin(), pair.ids.begin() + drop);
    pair.begin -= drop;
    pair.truncated = true;
}

std::vector<int32_t> rolling_ids(const Tokenizer& tokenizer, const std::string& text, bool add_special,
                                 const std::string& where) {
    std::vector<int32_t> ids = encode_prompt(tokenizer, text, adds(tokenizer, text, add_special));
    require(!ids.empty(), Exit::kData, "{}: the text has no tokens", where);
    ids.insert(ids.begin(), prefix_token(tokenizer, where));
    return ids;
}

}  // namespace trireme
