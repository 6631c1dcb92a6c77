#pragma once
/// SuffixAutomaton: the smallest automaton that accepts every part of a text of token ids (Blumer et al., "The smallest
/// automaton recognizing the subwords of a text", 1985). It finds the longest end of a sequence that occurs in the
/// text, and the token that followed its occurrences most often.

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace trireme {

/// Memory: about 130 bytes per token. Appending takes constant time on average.
class SuffixAutomaton {
  public:
    SuffixAutomaton() { clear(); }

    void clear();
    void append(int32_t token);
    int64_t size() const { return states_[last_].length; }

    /// The longest end of a sequence that occurs in the text: the state of this part, and its length.
    struct Match {
        int32_t state = 0;
        int32_t length = 0;
    };
    /// The match of the sequence after one more token.
    Match next(Match match, int32_t token) const;
    /// The longest end of the text that also occurs earlier in it.
    Match repeated() const;

    /// The token that most often followed a match, or a shorter end of it where that is the end of the text; the latest
    /// of several. `count` is how often it followed, of `of` occurrences that a
    /// token follows; 0: the text is empty.
    struct Follower {
        int32_t token = -1;
        int32_t count = 0, of = 0;
        Match after;  // the match that includes the token
    };
    Follower follower(Match match) const;

  private:
    struct State {
        int32_t length = 0;     // of its longest part
        int32_t link = -1;      // the state of the longest end with other occurrences
        int32_t count = 0;      // occurrences, without those that kMostCounted left out
        int32_t followed = 0;   // of them, those that a token follows
        int32_t edges = -1;     // the first of its edges
        int32_t follower = -1;  // the edge that occurred most often
    };
    struct Edge {
        int32_t token, to;
        int32_t next;  // of the same state; -1: none
    };
    // Each token counts an occurrence of at most this many of the text's ends, the longest first. There are more only
    // in a text that repeats itself over and over, where the longest ends are what is looked up.
    static constexpr int kMostCounted = 64;

    int32_t add_state(int32_t length);
    int32_t find_edge(int32_t state, int32_t token) const;
    void add_edge(int32_t state, int32_t token, int32_t to);
    int32_t split(int32_t state, int32_t edge);
    void count(int32_t state, int32_t token);

    std::vector<State> states_;  // 0: the empty part
    std::vector<Edge> edges_;
    std::unordered_map<uint64_t, int32_t> edge_of_;  // by state and token
    int32_t last_ = 0;                               // the whole text
};

}  // namespace trireme
