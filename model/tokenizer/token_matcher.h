#pragma once
/// Finds the tokens that are written out in a text ("</s>", "<|im_start|>") before anything else looks at it.

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct AddedToken {
    std::string text;
    int32_t id = -1;
    bool lstrip = false;       // swallows white space before it
    bool rstrip = false;       // swallows white space after it
    bool single_word = false;  // not beside a word character
    bool normalized = false;   // looked for in the normalised text
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
    /// Tokens without a text are left out. Of two with the same text the first one counts.
    explicit TokenMatcher(std::vector<AddedToken> tokens);

    /// Leftmost first, then longest. The segments are views of `text`, in order; plain ones are not empty.
    std::vector<Segment> split(std::string_view text) const;

    /// The longest token that `text` starts with, whatever surrounds it; null if there is none.
    const AddedToken* longest(std::string_view text) const;

    bool empty() const { return tokens_.empty(); }

  private:
    std::vector<AddedToken> tokens_;  // ascending by text
    std::bitset<256> first_bytes_;
};

}  // namespace trireme
