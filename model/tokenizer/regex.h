#pragma once
/// Regex: a regular expression of a tokenizer's files, run by PCRE2. Span: a part of a text.

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

namespace trireme {

/// Bytes [begin, end) of a text.
struct Span {
    size_t begin = 0, end = 0;
};

/// Immutable; matching from several threads is safe.
class Regex {
  public:
    /// `pattern` is in Oniguruma's dialect, in which Hugging Face files are written. Errors: Exit::kData naming `what`,
    /// the source.
    Regex(std::string_view pattern, std::string_view what);

    /// Returns the matches in `shape`, a result of unicode_shape(), left to right, none overlapping. A match is empty
    /// only where no match has just ended. Errors: Exit::kData if a search takes too many backtracking steps.
    std::vector<Span> find_all(std::string_view shape) const;

  private:
    struct Free {
        void operator()(void* code) const;
    };
    std::unique_ptr<void, Free> code_;  // pcre2_code
};

/// Returns whether \w of Rust's regexes matches: letters, marks, numbers that are letters or digits, connector
/// punctuation. `character` is one valid UTF-8 character or empty (false).
bool is_word_character(std::string_view character);

}  // namespace trireme
