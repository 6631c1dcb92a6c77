#pragma once
/// OrderedRow: a row of logits on the CPU, its distribution (RowDistribution), and draws from it.

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/distribution.h"

namespace trireme {

/// Tokens of a row in order, found and sorted only as far as needed: in most rows a draw ends within the first few
/// dozen. The first scan of the row finds tokens whose logit is close to the largest; each further scan reaches twice
/// as far.
class OrderedRow {
  public:
    static size_t scratch_bytes(int64_t vocab) { return static_cast<size_t>(vocab) * (2 * sizeof(uint64_t)); }

    /// At most `draws` tokens will be drawn. `scratch` [scratch_bytes] is aligned to 8 bytes. Errors: Exit::kData for a
    /// NaN, or without a finite maximum.
    OrderedRow(const LogitsRow& row, int64_t vocab, const SamplingRule& rule, int64_t draws, void* scratch);

    const RowDistribution& distribution() const { return distribution_; }
    /// Draws one of the tokens that have not been drawn, by a uniform times 2^53; a rule without a scale takes the
    /// first of them. Returns -1 if no weight is left.
    int32_t draw(uint64_t u);

  private:
    static constexpr size_t kAll = std::numeric_limits<size_t>::max();

    /// Calls visit(logits, n, first id) for each rank's part of the row.
    template <class Visit>
    void parts(const Visit& visit) const;
    void apply_filters(const SamplingRule& rule);
    /// Keeps the first n tokens, n >= 1, which must be in order already, and updates the distribution.
    void keep(size_t n);
    /// Finds the next tokens; false: all had been found.
    bool find();
    /// Finds n tokens, if the row has them, and sorts and weighs the first n.
    void order(size_t n);
    /// Sorts and weighs tokens up to token i, if necessary; i is at most ordered_. false: the filters keep no such
    /// token.
    bool reach(size_t i);
    /// Length of the shortest prefix whose weight is at least `least`.
    size_t head(uint64_t least);

    LogitsRow row_;
    int64_t vocab_;
    uint64_t* keys_;     // of the tokens found
    uint64_t* weights_;  // of the tokens in order
    size_t found_ = 0, ordered_ = 0;
    size_t kept_ = kAll;                                   // how many tokens the filters keep; kAll: every finite logit
    float from_ = std::numeric_limits<float>::infinity();  // all logits >= this have been found
    float depth_ = 0;    // how far from_ is below the largest logit, as a power of 2 of the weight
    size_t taken_ = 0;   // without a scale: number of tokens drawn
    uint64_t left_ = 0;  // weight of the tokens that have not been drawn
    RowDistribution distribution_;
};

}  // namespace trireme
