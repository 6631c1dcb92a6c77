#pragma once
/// CutPoints: positions at which a long text without a split into words can be cut without changing its tokens.

#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace trireme {

/// Merges never join two known characters that are neighbours in no token. Encoding the parts between such positions
/// gives the same ids as encoding the whole text, in memory that fits a cache: 5 times faster at 4 MB.
class CutPoints {
  public:
    /// Adds a token's text. Must be called for each token that merges can make, and for the single characters that are
    /// tokens.
    void add_token(std::string_view token);

    /// Returns the length in bytes of the first part of `text` that may be encoded alone. It is at least `least` bytes;
    /// if no later cut is known, it is the whole text. A space is looked up as the code point `space`.
    size_t part(std::string_view text, size_t least, uint32_t space = ' ') const;

  private:
    static uint64_t key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

    std::unordered_set<uint32_t> characters_;  // those that are tokens themselves
    std::unordered_set<uint64_t> pairs_;       // neighbours in some token
};

}  // namespace trireme
