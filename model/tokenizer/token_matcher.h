#pragma once
/// TokenMatcher: finds the added tokens that are written out in a text ("</s>", "<|im_start|>"). Tokenizers do this
/// before all other steps.

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// A token that is found as a text, not by merges.
struct AddedToken {
    std::string text;
    int32_t id = -1;
    bool lstrip = false;       // white space before it belongs to it
    bool rstrip = false;       // white space after it belongs to it
    bool single_word = false;  // found only if no word character is next to it
    bool normalized = false;   // searched in the normalised text; the matcher ignores this
    bool special = false;      // a control token
};

/// A part of a text: an added token, or plain text before, between or after added tokens.
struct Segment {
    std::string_view text;
    int32_t id = -1;  // -1: plain text
};

class TokenMatcher {
  public:
    TokenMatcher() = default;
    /// Tokens without a text are left out. If two have the same text, the first one counts.
    explicit TokenMatcher(std::vector<AddedToken> tokens);

    /// Divides `text` into segments, in order: views of it. Of several tokens the leftmost is found, then the longest.
    /// Plain segments are not empty.
    std::vector<Segment> split(std::string_view text) const;

    /// Returns the longest token that `text` starts with, whatever surrounds it; null if there is none.
    const AddedToken* longest(std::string_view text) const;

    bool empty() const { return tokens_.empty(); }

  private:
    std::vector<AddedToken> tokens_;  // ascending by text
    std::bitset<256> first_bytes_;
};

}  // namespace trireme
