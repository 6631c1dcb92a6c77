#pragma once
/// PreTokenizer: cuts a text into the words that byte-pair encoding works on (the `pre_tokenizer` of tokenizer.json).

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/regex.h"

namespace trireme {

/// A text and its remaining pieces, in order, none empty.
class Words {
  public:
    /// `at_start`: nothing of the whole text comes before this one.
    Words(std::string text, bool at_start);

    const std::string& text() const { return text_; }
    const std::string& shape() const { return shape_; }
    const std::vector<Span>& spans() const { return spans_; }
    bool at_start() const { return at_start_; }
    std::string_view word(Span span) const { return std::string_view(text_).substr(span.begin, span.end - span.begin); }

    void cut(std::vector<Span> spans) { spans_ = std::move(spans); }
    /// Replaces the text and the words.
    void rewrite(std::string text, std::vector<Span> spans);

  private:
    std::string text_;
    std::string shape_;  // unicode_shape(text_)
    std::vector<Span> spans_;
    bool at_start_;
};

class PreTokenizer {
  public:
    virtual ~PreTokenizer() = default;
    virtual void apply(Words& words) const = 0;
};

/// How a match and the text between matches become words.
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Every word is searched on its own. `invert` swaps matches and the rest.
std::unique_ptr<PreTokenizer> split_at(Regex regex, SplitBehavior behavior, bool invert);

/// Puts a space in front of every word that has none: ByteLevel with add_prefix_space.
std::unique_ptr<PreTokenizer> add_prefix_space();

/// Spaces become `mark` (U+2581). A word without a mark at its start gets one: never, always, or only the first word of
/// a whole text. `split`: words are cut before each mark.
enum class MetaspacePrefix { kNever, kFirst, kAlways };
std::unique_ptr<PreTokenizer> metaspace(std::string mark, MetaspacePrefix prefix, bool split);

/// GPT-2's pattern, the default of ByteLevel.
extern const std::string_view kGpt2Pattern;

}  // namespace trireme
