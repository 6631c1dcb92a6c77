#pragma once
/// Merger: the loop of byte-pair encoding, for BpeTokenizer and SpmTokenizer. It joins neighbours, the best pair first,
/// until no two may be joined.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace trireme {

/// A run of bytes of a word that may become a token.
struct Symbol {
    size_t begin = 0, size = 0;        // bytes of the word; size 0: joined to its left neighbour
    int32_t id = -1;                   // its id for `find`; -1: it is never joined
    int64_t previous = -1, next = -1;  // numbers of its neighbours in add() order; -1: none
};

/// The result of joining a pair. Lower ranks are joined first, equal ones from left to right.
struct Join {
    uint32_t rank = 0;
    int32_t id = -1;
};

/// The symbols of one word, and the loop that joins them. It is reused from word to word, so that a text costs no
/// allocation per word.
class Merger {
  public:
    /// Begins a new word.
    void clear() { symbols_.clear(); }
    /// Appends a symbol to the word; its fields are those of Symbol.
    void add(size_t begin, size_t size, int32_t id) {
        const auto index = static_cast<int64_t>(symbols_.size());
        if (index > 0) symbols_.back().next = index;
        symbols_.push_back({begin, size, id, index - 1, -1});
    }

    /// Joins symbols until no pair is left. `find(left, right)` returns the optional Join of two neighbouring Symbols.
    /// O(n log n) for n symbols: an outdated pair remains in the heap and is recognised by its size.
    template <class Find>
    void run(Find&& find) {
        heap_.clear();
        for (size_t i = 1; i < symbols_.size(); ++i) {
            if (const std::optional<Pair> pair = pair_at(static_cast<int64_t>(i) - 1, find)) heap_.push_back(*pair);
        }
        std::make_heap(heap_.begin(), heap_.end(), later);
        while (!heap_.empty()) {
            std::pop_heap(heap_.begin(), heap_.end(), later);
            const Pair best = heap_.back();
            heap_.pop_back();
            if (is_current(best)) join(best, find);
        }
    }

    /// Calls visit(symbol) for the remaining symbols, in the word's order.
    template <class Visit>
    void for_each(Visit&& visit) const {
        for (int64_t i = symbols_.empty() ? -1 : 0; i >= 0; i = at(i).next) visit(at(i));
    }

  private:
    struct Pair {
        Join join;
        int64_t left = 0;  // number of its left symbol
        size_t size = 0;   // bytes of both symbols together, when the pair was found
    };

    static bool later(const Pair& a, const Pair& b) {
        return a.join.rank != b.join.rank ? a.join.rank > b.join.rank : a.left > b.left;
    }
    Symbol& at(int64_t i) { return symbols_[static_cast<size_t>(i)]; }
    const Symbol& at(int64_t i) const { return symbols_[static_cast<size_t>(i)]; }

    // Symbols only grow, and one that was joined to its left neighbour has size 0: if the size is equal and there is a
    // right neighbour, the pair has not changed.
    bool is_current(const Pair& pair) const {
        const Symbol& left = at(pair.left);
        return left.size > 0 && left.next >= 0 && left.size + at(left.next).size == pair.size;
    }

    template <class Find>
    std::optional<Pair> pair_at(int64_t left, Find& find) const {
        const Symbol& a = at(left);
        const Symbol& b = at(a.next);
        if (a.id < 0 || b.id < 0) return std::nullopt;
        const std::optional<Join> join = find(a, b);
        if (!join) return std::nullopt;
        return Pair{*join, left, a.size + b.size};
    }

    template <class Find>
    void join(const Pair& pair, Find& find) {
        Symbol& left = at(pair.left);
        Symbol& right = at(left.next);
        left.size += right.size;
        left.id = pair.join.id;
        left.next = right.next;
        right.size = 0;
        if (left.next >= 0) at(left.next).previous = pair.left;
        const auto push = [&](int64_t i) {
            if (const std::optional<Pair> found = pair_at(i, find)) {
                heap_.push_back(*found);
                std::push_heap(heap_.begin(), heap_.end(), later);
            }
        };
        if (left.previous >= 0) push(left.previous);
        if (left.next >= 0) push(pair.left);
    }

    std::vector<Symbol> symbols_;
    std::vector<Pair> heap_;  // the best pair first
};

}  // namespace trireme
