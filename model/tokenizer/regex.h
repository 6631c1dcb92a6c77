#pragma once
/// Regular expressions of tokenizer files, run by PCRE2.

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
    /// `pattern` in Oniguruma's dialect, which Hugging Face files are written in. Errors: Exit::kData naming `what`.
    Regex(std::string_view pattern, std::string_view what);

    /// Returns the matches in `shape` (see unicode_shape), left to right, none overlapping; an empty one only where no
    /// match has just ended. Errors: Exit::kData if a search takes too many backtracking steps.
    std::vector<Span> find_all(std::string_view shape) const;

  private:
    struct Free {
        void operator()(void* code) const;
    };
    std::unique_ptr<void, Free> code_;  // pcre2_code
};

/// Whether \w of Rust's regexes matches: letters, marks, numbers that are letters or digits, connector punctuation.
/// `character` is one valid UTF-8 character or empty (false).
bool is_word_character(std::string_view character);

}  // namespace trireme
