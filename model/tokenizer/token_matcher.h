#pragma once
/// TokenMatcher: finds the tokens that are written out in a text ("</s>", "<|im_start|>"), before all other steps.

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct AddedToken {
    std::string text;
    int32_t id = -1;
    bool lstrip = false;       // includes white space before it
    bool rstrip = false;       // includes white space after it
    bool single_word = false;  // not next to a word character
    bool normalized = false;   // searched in the normalised text
    bool special = false;      // a control token
};

/// A part of a text: a token, or the plain text between two of them.
struct Segment {
    std::string_view text;
    int32_t id = -1;  // -1: plain
};

class TokenMatcher {
  public:
    TokenMatcher() = default;
    /// Tokens without a text are left out. If two have the same text, the first one counts.
    explicit TokenMatcher(std::vector<AddedToken> tokens);

    /// Finds the leftmost token first, then the longest. Segments are views of `text`, in order; plain ones are not
    /// empty.
    std::vector<Segment> split(std::string_view text) const;

    /// Returns the longest token that `text` starts with, whatever surrounds it; null if there is none.
    const AddedToken* longest(std::string_view text) const;

    bool empty() const { return tokens_.empty(); }

  private:
    std::vector<AddedToken> tokens_;  // ascending by text
    std::bitset<256> first_bytes_;
};

}  // namespace trireme
