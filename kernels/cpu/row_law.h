#pragma once
/// A row of logits on the CPU: its law (kernels/law.h), and draws from it.

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/law.h"

namespace trireme {

/// Tokens of a row in their order, found and sorted only as far as somebody looks: a draw ends within the first few
/// dozen of most rows. Found are those whose logit is not far below the largest, then those down to twice as far below
/// it, and so on; each time by a scan of the row.
class OrderedRow {
  public:
    static size_t scratch_bytes(int64_t vocab) { return static_cast<size_t>(vocab) * (2 * sizeof(uint64_t)); }

    /// At most `draws` tokens will be drawn. `scratch` [scratch_bytes], aligned for 8 bytes. Errors: Exit::kData for a
    /// NaN, or no finite maximum.
    OrderedRow(const LogitsRow& row, int64_t vocab, const SamplingRule& rule, int64_t draws, void* scratch);

    const RowLaw& law() const { return law_; }
    /// The token that a uniform, times 2^53, draws of those that have not been drawn; a rule without a scale takes the
    /// first of them. -1: they weigh nothing.
    int32_t draw(uint64_t u);

  private:
    static constexpr size_t kAll = std::numeric_limits<size_t>::max();

    /// visit(logits, n, the first's id) for each rank's part of the row.
    template <class Visit>
    void parts(const Visit& visit) const;
    void apply_filters(const SamplingRule& rule);
    void keep(size_t n);
    /// Finds the next tokens; false: all are found.
    bool find();
    /// Finds n tokens, if the row has so many, and puts the first n of those found in their order, weighed.
    void order(size_t n);
    /// Sorts and weighs as far as token i, if that is not done yet; i is at most ordered_. false: no such token is
    /// kept.
    bool reach(size_t i);
    /// Tokens of the shortest head that weighs `least` or more.
    size_t head(uint64_t least);

    LogitsRow row_;
    int64_t vocab_;
    uint64_t* keys_;     // of the tokens found
    uint64_t* weights_;  // of those in their order
    size_t found_ = 0, ordered_ = 0;
    size_t kept_ = kAll;                                   // how many tokens the filters keep; kAll: every finite logit
    float from_ = std::numeric_limits<float>::infinity();  // all logits of this or more have been found
    float depth_ = 0;    // how far below the largest that is, as a power of 2 of the weight
    size_t taken_ = 0;   // without a scale: so many of the first
    uint64_t left_ = 0;  // what those weigh that have not been drawn
    RowLaw law_;
};

}  // namespace trireme
