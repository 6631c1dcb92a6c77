#include "model/tokenizer/bpe_tokenizer.h"

#include <algorithm>

#include "model/tokenizer/utf8.h"

namespace trireme {
namespace {

constexpr size_t kBpePartBytes = 256;

/// Fills a Merger with the symbols of a word before any merge. A run of unknown characters is added when a known symbol
/// follows or the word ends; symbols of byte fallback do not end the run. The references do the same.
class WordBuilder {
  public:
    WordBuilder(const BpeParts& parts, Merger& merger) : parts_(parts), merger_(merger) { merger_.clear(); }

    void known(size_t begin, size_t size, int32_t id) {
        end_unknown();
        merger_.add(begin, size, id);
    }

    /// Adds a character or byte without a token.
    void other(std::string_view word, size_t begin, size_t size) {
        const auto byte_id = [&](char byte) { return parts_.byte_ids[static_cast<uint8_t>(byte)]; };
        const std::string_view bytes = word.substr(begin, size);
        if (std::all_of(bytes.begin(), bytes.end(), [&](char byte) { return byte_id(byte) >= 0; })) {
            for (size_t i = 0; i < size; ++i) merger_.add(begin + i, 1, byte_id(bytes[i]));
        } else if (parts_.unknown >= 0) {
            if (unknown_size_ > 0 && !parts_.fuse_unknown) end_unknown();
            if (unknown_size_ == 0) unknown_begin_ = begin;
            unknown_size_ += size;
        } else if (parts_.missing_separates) {
            merger_.add(begin, size, -1);
        }
    }

    void end_unknown() {
        if (unknown_size_ > 0) merger_.add(unknown_begin_, unknown_size_, parts_.unknown);
        unknown_size_ = 0;
    }

  private:
    const BpeParts& parts_;
    Merger& merger_;
    size_t unknown_begin_ = 0, unknown_size_ = 0;
};

TokenMatcher matcher_of_normalized(const TokenTable& table, const BpeParts& parts) {
    std::vector<AddedToken> tokens;
    for (AddedToken token : table.added) {
        if (!token.normalized) continue;
        token.text = normalized(parts.normalizers, std::move(token.text));
        tokens.push_back(std::move(token));
    }
    return TokenMatcher(std::move(tokens));
}

}  // namespace

BpeTokenizer::BpeTokenizer(const TokenTable& table, BpeParts parts)
    : TableTokenizer(table),
      parts_(std::move(parts)),
      has_all_bytes_(std::all_of(parts_.byte_ids.begin(), parts_.byte_ids.end(), [](int32_t id) { return id >= 0; })),
      normalized_matcher_(matcher_of_normalized(table, parts_)) {}

bool BpeTokenizer::keeps_every_byte() const {
    return has_all_bytes_;
}

LeftOut BpeTokenizer::left_out_of_plain(std::string_view text) const {
    LeftOut out;
    if (!parts_.byte_level || has_all_bytes_ || parts_.unknown >= 0) return out;
    const auto count = [&](std::string_view word) {
        if (parts_.ignore_merges && parts_.ids.contains(word)) return;
        for (const char byte : word) {
            if (parts_.byte_ids[static_cast<uint8_t>(byte)] >= 0) continue;
            if (++out.bytes > 1) continue;
            out.first = static_cast<uint8_t>(byte);
            out.offset = static_cast<int64_t>(std::min(text.find(byte), text.size()));  // a normaliser may have made it
        }
    };
    const std::string rewritten = normalized(parts_.normalizers, std::string(text));
    if (normalized_matcher_.empty()) {
        for_each_word(rewritten, false, count);
        return out;
    }
    for (const Segment& segment : normalized_matcher_.split(rewritten)) {
        if (segment.id < 0) for_each_word(std::string(segment.text), false, count);
    }
    return out;
}

void BpeTokenizer::encode_plain(std::string_view text, bool prefix, std::vector<int32_t>& ids) const {
    Merger merger;
    std::string rewritten = normalized(parts_.normalizers, std::string(text));
    if (normalized_matcher_.empty()) return encode_words(std::move(rewritten), prefix, merger, ids);
    for (const Segment& segment : normalized_matcher_.split(rewritten)) {
        if (segment.id >= 0) {
            ids.push_back(segment.id);
        } else {
            const bool at_start = prefix && segment.text.data() == rewritten.data();
            encode_words(std::string(segment.text), at_start, merger, ids);
        }
    }
}

template <class Visit>
void BpeTokenizer::for_each_word(std::string text, bool prefix, const Visit& visit) const {
    if (parts_.pre_tokenizers.empty()) return visit(text);
    Words words(std::move(text), prefix);
    for (const auto& step : parts_.pre_tokenizers) step->apply(words);
    for (const Span span : words.spans()) visit(words.word(span));
}

void BpeTokenizer::encode_words(std::string text, bool prefix, Merger& merger, std::vector<int32_t>& ids) const {
    for_each_word(std::move(text), prefix, [&](std::string_view word) { encode_word(word, merger, ids); });
}

void BpeTokenizer::encode_word(std::string_view word, Merger& merger, std::vector<int32_t>& ids) const {
    if (parts_.ignore_merges) {
        if (const auto whole = parts_.ids.find(word); whole != parts_.ids.end()) return ids.push_back(whole->second);
    }
    while (!word.empty()) {
        const size_t size = parts_.cuts.part(word, kBpePartBytes);
        merge(word.substr(0, size), merger, ids);
        word.remove_prefix(size);
    }
}

void BpeTokenizer::merge(std::string_view word, Merger& merger, std::vector<int32_t>& ids) const {
    WordBuilder builder(parts_, merger);
    for (size_t at = 0; at < word.size();) {
        const size_t size = parts_.byte_level ? 1 : std::max<size_t>(1, utf8_length(word.substr(at)));
        int32_t id = -1;
        if (parts_.byte_level) {
            id = parts_.byte_ids[static_cast<uint8_t>(word[at])];
        } else if (const auto found = parts_.ids.find(word.substr(at, size)); found != parts_.ids.end()) {
            id = found->second;
        }
        id >= 0 ? builder.known(at, size, id) : builder.other(word, at, size);
        at += size;
    }
    builder.end_unknown();
    merger.run([&](const Symbol& left, const Symbol& right) { return parts_.merges.find(left.id, right.id); });
    merger.for_each([&](const Symbol& symbol) {
        if (symbol.id >= 0) ids.push_back(symbol.id);
    });
}

}  // namespace trireme
