#include "model/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "model/tokenizer/unicode_shape.h"

namespace trireme {

const std::string_view kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

struct MatchPart {
    Span span;
    bool is_match = false;
};

/// Returns matches and the parts between them, in order.
std::vector<MatchPart> parts_of(size_t size, const std::vector<Span>& matches, bool invert) {
    std::vector<MatchPart> parts;
    size_t done = 0;
    for (const Span match : matches) {
        if (match.begin > done) parts.push_back({{done, match.begin}, invert});
        parts.push_back({match, !invert});
        done = match.end;
    }
    if (done < size) parts.push_back({{done, size}, invert});
    return parts;
}

// A run of adjoining matches counts once: only its first one merges with its neighbour.
std::vector<Span> merged_with_previous(const std::vector<MatchPart>& parts) {
    std::vector<Span> words;
    bool previous = false;
    for (const MatchPart& part : parts) {
        if (part.is_match && !previous && !words.empty()) {
            words.back().end = part.span.end;
        } else {
            words.push_back(part.span);
        }
        previous = part.is_match;
    }
    return words;
}

std::vector<Span> merged_with_next(const std::vector<MatchPart>& parts) {
    std::vector<Span> words;
    bool previous = false;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        if (part->is_match && !previous && !words.empty()) {
            words.back().begin = part->span.begin;
        } else {
            words.push_back(part->span);
        }
        previous = part->is_match;
    }
    std::reverse(words.begin(), words.end());
    return words;
}

std::vector<Span> contiguous(const std::vector<MatchPart>& parts) {
    std::vector<Span> words;
    bool previous = false;
    for (const MatchPart& part : parts) {
        if (part.is_match == previous && !words.empty()) {
            words.back().end = part.span.end;
        } else {
            words.push_back(part.span);
        }
        previous = part.is_match;
    }
    return words;
}

std::vector<Span> words_of(const std::vector<MatchPart>& parts, SplitBehavior behavior) {
    if (behavior == SplitBehavior::kMergedWithPrevious) return merged_with_previous(parts);
    if (behavior == SplitBehavior::kMergedWithNext) return merged_with_next(parts);
    if (behavior == SplitBehavior::kContiguous) return contiguous(parts);
    std::vector<Span> words;
    for (const MatchPart& part : parts) {
        if (behavior == SplitBehavior::kIsolated || !part.is_match) words.push_back(part.span);
    }
    return words;
}

/// Cuts every word at the matches that `find` returns for it, as spans relative to the word.
template <class Find>
void cut_words(Words& words, SplitBehavior behavior, bool invert, Find&& find) {
    std::vector<Span> cut;
    for (const Span word : words.spans()) {
        for (const Span span : words_of(parts_of(word.end - word.begin, find(word), invert), behavior)) {
            if (span.end > span.begin) cut.push_back({word.begin + span.begin, word.begin + span.end});
        }
    }
    words.cut(std::move(cut));
}

class Split final : public PreTokenizer {
  public:
    Split(Regex regex, SplitBehavior behavior, bool invert)
        : regex_(std::move(regex)), behavior_(behavior), invert_(invert) {}

    void apply(Words& words) const override {
        const std::string_view shape = words.shape();
        cut_words(words, behavior_, invert_,
                  [&](Span word) { return regex_.find_all(shape.substr(word.begin, word.end - word.begin)); });
    }

  private:
    Regex regex_;
    SplitBehavior behavior_;
    bool invert_;
};

class PrefixSpaceRule final : public PreTokenizer {
  public:
    void apply(Words& words) const override {
        std::string text;
        std::vector<Span> spans;
        for (const Span span : words.spans()) {
            const std::string_view word = words.word(span);
            const size_t begin = text.size();
            if (!word.starts_with(' ')) text += ' ';
            text += word;
            spans.push_back({begin, text.size()});
        }
        words.rewrite(std::move(text), std::move(spans));
    }
};

class Metaspace final : public PreTokenizer {
  public:
    Metaspace(std::string mark, MetaspacePrefix prefix, bool split)
        : mark_(std::move(mark)), prefix_(prefix), split_(split) {}

    void apply(Words& words) const override {
        std::string text;
        std::vector<Span> spans;
        for (const Span span : words.spans()) {
            const std::string_view word = words.word(span);
            const size_t begin = text.size();
            const bool first = words.at_start() && span.begin == 0;
            const bool wanted = prefix_ == MetaspacePrefix::kAlways || (prefix_ == MetaspacePrefix::kFirst && first);
            if (wanted && !word.starts_with(' ') && !word.starts_with(mark_)) text += mark_;
            for (const char c : word) c == ' ' ? text += mark_ : text += c;
            spans.push_back({begin, text.size()});
        }
        words.rewrite(std::move(text), std::move(spans));
        if (split_)
            cut_words(words, SplitBehavior::kMergedWithNext, /*invert=*/false, [&](Span w) { return marks(words, w); });
    }

  private:
    std::vector<Span> marks(const Words& words, Span span) const {
        const std::string_view word = words.word(span);
        std::vector<Span> found;
        for (size_t at = 0; (at = word.find(mark_, at)) != std::string_view::npos; at += mark_.size())
            found.push_back({at, at + mark_.size()});
        return found;
    }

    std::string mark_;
    MetaspacePrefix prefix_;
    bool split_;
};

}  // namespace

Words::Words(std::string text, bool at_start)
    : text_(std::move(text)), shape_(unicode_shape(text_)), at_start_(at_start) {
    if (!text_.empty()) spans_.push_back({0, text_.size()});
}

void Words::rewrite(std::string text, std::vector<Span> spans) {
    text_ = std::move(text);
    shape_ = unicode_shape(text_);
    spans_ = std::move(spans);
}

std::unique_ptr<PreTokenizer> split_at(Regex regex, SplitBehavior behavior, bool invert) {
    return std::make_unique<Split>(std::move(regex), behavior, invert);
}

std::unique_ptr<PreTokenizer> add_prefix_space() {
    return std::make_unique<PrefixSpaceRule>();
}

std::unique_ptr<PreTokenizer> metaspace(std::string mark, MetaspacePrefix prefix, bool split) {
    return std::make_unique<Metaspace>(std::move(mark), prefix, split);
}

}  // namespace trireme
