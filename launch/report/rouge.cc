#include "launch/report/rouge.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <utf8proc.h>

#include "runtime/error.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;
using Set = std::set<std::string>;

/// Whether Python's str.split() splits at this character.
bool is_blank(int32_t c) {
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/// A sentence of blanks has one word, which is empty: the package joins words by a blank and splits again.
Words words_of(std::string_view sentence) {
    Words words;
    std::string word;
    const auto end_word = [&] {
        if (!word.empty()) words.push_back(std::move(word));
        word.clear();
    };
    while (!sentence.empty()) {
        int32_t c = 0;
        const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(sentence.data());
        const auto read = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(sentence.size()), &c);
        const auto n = static_cast<size_t>(std::max<utf8proc_ssize_t>(1, read));  // invalid UTF-8: one byte
        if (read > 0 && is_blank(c)) {
            end_word();
        } else {
            word.append(sentence.substr(0, n));
        }
        sentence.remove_prefix(n);
    }
    end_word();
    if (words.empty()) words.emplace_back();
    return words;
}

std::vector<Words> sentences_of(std::string_view text) {
    std::vector<Words> sentences;
    while (!text.empty()) {
        const size_t end = std::min(text.find('.'), text.size());
        if (end > 0) sentences.push_back(words_of(text.substr(0, end)));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return sentences;
}

/// N-grams of words, also across the ends of sentences. Words contain no blanks, so a blank may join them.
Set grams(const std::vector<Words>& sentences, size_t n) {
    Words all;
    for (const Words& words : sentences) all.insert(all.end(), words.begin(), words.end());
    Set set;
    for (size_t i = 0; i + n <= all.size(); ++i) {
        std::string gram = all[i];
        for (size_t k = 1; k < n; ++k) gram += " " + all[i + k];
        set.insert(std::move(gram));
    }
    return set;
}

RougeScore score(size_t common, size_t of_text, size_t of_reference) {
    RougeScore s;
    if (of_text > 0) s.p = static_cast<double>(common) / static_cast<double>(of_text);
    if (of_reference > 0) s.r = static_cast<double>(common) / static_cast<double>(of_reference);
    s.f = 2.0 * ((s.p * s.r) / (s.p + s.r + 1e-8));
    return s;
}

RougeScore rouge_n(const std::vector<Words>& text, const std::vector<Words>& reference, size_t n) {
    const Set own = grams(text, n), wanted = grams(reference, n);
    const auto common = std::ranges::count_if(own, [&](const std::string& gram) { return wanted.contains(gram); });
    return score(static_cast<size_t>(common), own.size(), wanted.size());
}

/// Adds the words of a longest common subsequence. Among several, it is the one that the package finds: it searches
/// from the end, and at a tie drops the text's word.
void add_common(Set& all, const Words& reference, const Words& text) {
    const size_t columns = text.size() + 1;
    std::vector<int32_t> length((reference.size() + 1) * columns, 0);
    const auto at = [&](size_t i, size_t j) -> int32_t& { return length[i * columns + j]; };
    for (size_t i = 1; i <= reference.size(); ++i) {
        for (size_t j = 1; j <= text.size(); ++j) {
            at(i, j) = reference[i - 1] == text[j - 1] ? at(i - 1, j - 1) + 1 : std::max(at(i - 1, j), at(i, j - 1));
        }
    }
    for (size_t i = reference.size(), j = text.size(); i > 0 && j > 0;) {
        if (reference[i - 1] == text[j - 1]) {
            all.insert(reference[i - 1]);
            --i, --j;
        } else if (at(i - 1, j) > at(i, j - 1)) {
            --i;
        } else {
            --j;
        }
    }
}

}  // namespace

bool has_sentences(std::string_view text) {
    return text.find_first_not_of('.') != std::string_view::npos;
}

Rouge rouge(std::string_view text, std::string_view reference) {
    check(has_sentences(reference), "rouge: the reference is empty");
    if (!has_sentences(text)) return {.one = {}, .two = {}, .l = {}, .empty = true};
    const std::vector<Words> own = sentences_of(text), wanted = sentences_of(reference);
    Set common;
    for (const Words& r : wanted) {
        for (const Words& t : own) add_common(common, r, t);
    }
    return {.one = rouge_n(own, wanted, 1),
            .two = rouge_n(own, wanted, 2),
            .l = score(common.size(), grams(own, 1).size(), grams(wanted, 1).size())};
}

}  // namespace trireme
