#include "decode/ngram.h"

#include <algorithm>

#include <xxhash.h>

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {

void Ngram::prefill(std::span<const int32_t> prompt, const Progress&) {
    text_.clear();
    ends_.clear();
    for (const int32_t token : prompt) append(token);
    prompt_tokens_ = text_.size();
}

void Ngram::begin(uint32_t) {
    while (text_.size() > prompt_tokens_) remove_last();
}

uint64_t Ngram::key(size_t end, size_t n) const {
    return XXH3_64bits_withSeed(text_.data() + end - n, n * sizeof(int32_t), n);
}

// Records the new token as the one that follows the n-grams that end before it.
void Ngram::append(int32_t token) {
    const size_t end = text_.size();
    for (size_t n = kShortest; n <= std::min(kLongest, end); ++n) ends_[key(end, n)].push_back(end);
    text_.push_back(token);
}

void Ngram::remove_last() {
    text_.pop_back();
    const size_t end = text_.size();
    for (size_t n = kShortest; n <= std::min(kLongest, end); ++n) ends_.find(key(end, n))->second.pop_back();
}

void Ngram::state(Archive& ar) {
    ar.section("n-grams");
    std::vector<int32_t> text = text_;
    ar.values(text);
    uint64_t prompt = prompt_tokens_;
    ar.value(prompt);
    if (!ar.loads()) return;
    prefill(text, {});
    prompt_tokens_ = std::min(prompt, text.size());
}

std::span<const Proposed> Ngram::propose(int64_t limit) {
    proposal_.clear();
    const size_t end = text_.size();
    const auto wanted = static_cast<size_t>(std::min(limit, gamma_));
    for (size_t n = std::min(kLongest, end); n >= kShortest; --n) {
        const auto found = ends_.find(key(end, n));
        if (found == ends_.end() || found->second.empty()) continue;
        const size_t from = found->second.back();
        // Two n-grams may have the same key: compare their tokens.
        if (!std::equal(text_.end() - static_cast<std::ptrdiff_t>(n), text_.end(),
                        text_.begin() + static_cast<std::ptrdiff_t>(from - n))) {
            continue;
        }
        // Past the end of the sequence the proposal itself is read: a loop of a few tokens is proposed in full.
        for (size_t i = 0; i < wanted; ++i) {
            const size_t at = from + i;
            const int32_t token = at < end ? text_[at] : proposal_[at - end].token;
            proposal_.push_back({.token = token, .parent = static_cast<int32_t>(i) - 1});
        }
        break;
    }
    return proposal_;
}

void Ngram::resolve(std::span<const int32_t> path, int32_t next) {
    for (const int32_t i : path) append(proposal_[index(i)].token);
    if (next >= 0) append(next);
    proposal_.clear();
}

void Ngram::rewind(int64_t n, int32_t next) {
    check(n >= 0 && text_.size() - prompt_tokens_ >= static_cast<size_t>(n), "ngram: {} tokens to forget of {}", n,
          text_.size() - prompt_tokens_);
    for (int64_t i = 0; i < n; ++i) remove_last();
    if (next >= 0) append(next);
}

}  // namespace trireme
