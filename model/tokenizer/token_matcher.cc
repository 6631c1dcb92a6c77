#include "model/tokenizer/token_matcher.h"

#include <algorithm>

#include "model/tokenizer/regex.h"
#include "model/tokenizer/utf8.h"

namespace trireme {
namespace {

/// Length of the white space that `text` starts with.
size_t leading_space(std::string_view text) {
    size_t at = 0;
    for (size_t length = 0; (length = utf8_length(text.substr(at))) > 0; at += length) {
        if (!is_white_space(utf8_code_point(text.substr(at)))) break;
    }
    return at;
}

/// The last valid character of `text`, or an empty view.
std::string_view last_character(std::string_view text) {
    for (size_t length = 1; length <= std::min<size_t>(4, text.size()); ++length) {
        const std::string_view tail = text.substr(text.size() - length);
        if (utf8_length(tail) == length) return tail;
    }
    return {};
}

size_t trailing_space(std::string_view text) {
    size_t space = 0;
    for (;;) {
        const std::string_view last = last_character(text.substr(0, text.size() - space));
        if (last.empty() || !is_white_space(utf8_code_point(last))) return space;
        space += last.size();
    }
}

bool stands_alone(std::string_view text, size_t begin, size_t end) {
    const std::string_view before = last_character(text.substr(0, begin));
    const std::string_view after = text.substr(end, utf8_length(text.substr(end)));
    return !is_word_character(before) && !is_word_character(after);
}

}  // namespace

TokenMatcher::TokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
    const auto by_text = [](const AddedToken& a, const AddedToken& b) { return a.text < b.text; };
    const auto same_text = [](const AddedToken& a, const AddedToken& b) { return a.text == b.text; };
    std::erase_if(tokens_, [](const AddedToken& token) { return token.text.empty(); });
    std::stable_sort(tokens_.begin(), tokens_.end(), by_text);
    tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same_text), tokens_.end());
    for (const AddedToken& token : tokens_) first_bytes_.set(static_cast<uint8_t>(token.text[0]));
}

// Narrows the sorted tokens to those that match more and more of the text. This needs no trie and no further memory.
const AddedToken* TokenMatcher::longest(std::string_view text) const {
    if (text.empty() || !first_bytes_[static_cast<uint8_t>(text[0])]) return nullptr;
    const AddedToken* found = nullptr;
    auto low = tokens_.begin();
    auto high = tokens_.end();
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<uint8_t>(text[i]);
        low = std::partition_point(low, high, [&](const AddedToken& token) {
            return token.text.size() <= i || static_cast<uint8_t>(token.text[i]) < byte;
        });
        high = std::partition_point(
            low, high, [&](const AddedToken& token) { return static_cast<uint8_t>(token.text[i]) == byte; });
        if (low == high) break;
        if (low->text.size() == i + 1) found = &*low;
    }
    return found;
}

std::vector<Segment> TokenMatcher::split(std::string_view text) const {
    std::vector<Segment> segments;
    size_t done = 0;  // everything before it is in `segments`
    for (size_t at = 0; at < text.size();) {
        const AddedToken* token = longest(text.substr(at));
        if (token == nullptr) {
            ++at;
            continue;
        }
        size_t begin = at;
        size_t end = at + token->text.size();
        at = end;
        if (token->single_word && !stands_alone(text, begin, end)) continue;
        if (token->lstrip) begin -= trailing_space(text.substr(0, begin));
        if (token->rstrip) end += leading_space(text.substr(end));
        begin = std::max(begin, done);
        end = std::max(end, begin);
        if (begin > done) segments.push_back({text.substr(done, begin - done), -1});
        segments.push_back({text.substr(begin, end - begin), token->id});
        done = end;
    }
    if (done < text.size()) segments.push_back({text.substr(done), -1});
    return segments;
}

}  // namespace trireme
