#include "model/tokenizer/same_ids.h"

#include <string_view>
#include <vector>

#include "model/tokenizer/utf8.h"

namespace trireme {
namespace {

/// Pre-tokenizers cut these texts differently: contractions, runs of digits, of spaces and of signs, letters of many
/// scripts, characters of several code points, bytes that are not UTF-8.
constexpr std::string_view kTexts[] = {
    "In the beginning, it's 1234567 o'clock; DON'T we'll they'RE I'm you've he'd",
    " leading,  two spaces\t\ttabs \t mixed\n\n\nlines\r\n   x = f(a_b[0], 3.14159) // \xE2\x80\x94\n ",
    "3 33 333 3333 33333 333333 2026-11-27 1,000,000 0x7fff    39 4101\n\n\n   12x  7",
    "na\xC3\xAFve caf\xC3\xA9 \xC3\x9Cn\xC3\xAF"
    "code \xE4\xBD\xA0\xE5\xA5\xBD\xEF\xBC\x8C\xE4\xB8\x96\xE7\x95\x8C \xD0\x9C\xD0\xB8\xD1\x80 "
    "\xD7\xA9\xD7\x9C\xD7\x95\xD7\x9D \xE0\xA4\xA8\xE0\xA4\xAE\xE0\xA4\xB8\xE0\xA5\x8D\xE0\xA4\xA4\xE0\xA5\x87 "
    "\xED\x95\x9C\xEA\xB5\xAD\xEC\x96\xB4 \xD9\xA1\xD9\xA2\xD9\xA3",
    "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80 \xF0\x9F\xA6\x99\xF0\x9F\xA6\x99 \xC2\xA0\xEF\xAC\x81 \x01\x7F",
    "!!!??? ---=== ''''``\"\"... a.b.c www.x.org/~u?q=1&r=2#s {[(<>)]} $5 50% C++ @me #tag",
    "word\xFF\xFE"
    "end"};

}  // namespace

bool composes_letters(const Tokenizer& t) {
    return t.encode("cafe\xCC\x81", false) == t.encode("caf\xC3\xA9", false);
}

std::optional<IdDifference> first_difference(const Tokenizer& own, const Tokenizer& other) {
    int64_t equal = 0;
    const bool composed = composes_letters(own);
    for (const std::string_view text : kTexts) {
        if (own.encode(text, true) != other.encode(text, true)) return IdDifference{equal, std::string(text)};
        ++equal;
    }
    for (int64_t id = 0; id < own.vocab(); ++id, ++equal) {
        const std::string piece = own.piece(static_cast<int32_t>(id));
        if (piece.empty()) continue;  // no token, or one without a text
        if (piece != other.piece(static_cast<int32_t>(id))) return IdDifference{equal, piece};
        // A byte alone is no text: sentencepiece puts no space before it, GGUF's tokenizer does.
        if (!is_utf8(piece)) continue;
        const std::vector<int32_t> ids = own.encode(piece, false);
        const bool changed = composed && own.decode(ids) != piece;
        if (!changed && ids != other.encode(piece, false)) return IdDifference{equal, piece};
    }
    return {};
}

}  // namespace trireme
