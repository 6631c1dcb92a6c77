#pragma once
/// PreTokenizer: cuts a text into the words that byte-pair encoding works on (the `pre_tokenizer` of tokenizer.json).

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/tokenizer/regex.h"

namespace trireme {

/// A text and its words: spans of the text, in order, none empty. At first the whole text is one word.
class Words {
  public:
    /// `at_start`: the first word is one that MetaspacePrefix::kFirst marks.
    Words(std::string text, bool at_start);

    const std::string& text() const { return text_; }
    /// The text as a Regex sees it (unicode_shape.h); spans are valid in both.
    const std::string& shape() const { return shape_; }
    const std::vector<Span>& spans() const { return spans_; }
    bool at_start() const { return at_start_; }
    std::string_view word(Span span) const { return std::string_view(text_).substr(span.begin, span.end - span.begin); }

    /// Replaces the words.
    void cut(std::vector<Span> spans) { spans_ = std::move(spans); }
    /// Replaces the text and the words.
    void rewrite(std::string text, std::vector<Span> spans);

  private:
    std::string text_;
    std::string shape_;  // unicode_shape(text_)
    std::vector<Span> spans_;
    bool at_start_;
};

/// One step: cuts or rewrites the words that earlier steps made.
class PreTokenizer {
  public:
    virtual ~PreTokenizer() = default;
    virtual void apply(Words& words) const = 0;
};

/// How matches and the parts between them become words. Each is a word (kIsolated), or matches are removed, are merged
/// with the part before or after them, or neighbouring matches are one word (kContiguous).
enum class SplitBehavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// Cuts each word at the matches of `regex` in it. `invert` swaps matches and the parts between them.
std::unique_ptr<PreTokenizer> split_at(Regex regex, SplitBehavior behavior, bool invert);

/// Puts a space in front of every word that begins with none: ByteLevel with add_prefix_space.
std::unique_ptr<PreTokenizer> add_prefix_space();

/// Which words get a mark if they begin with none: no word, the first word of the user's text, or all words.
enum class MetaspacePrefix { kNever, kFirst, kAlways };
/// Replaces spaces by `mark` (U+2581), and adds marks to words as `prefix` says. `split`: then cuts words before each
/// mark.
std::unique_ptr<PreTokenizer> metaspace(std::string mark, MetaspacePrefix prefix, bool split);

/// GPT-2's pattern, the default of ByteLevel.
extern const std::string_view kGpt2Pattern;

}  // namespace trireme
