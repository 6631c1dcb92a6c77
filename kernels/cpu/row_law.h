#pragma once
/// A row of logits on the CPU: its law (kernels/law.h), and draws from it.

#include <cstddef>
#include <cstdint>

#include "kernels/law.h"

namespace trireme {

/// Tokens of a row in their order, sorted only as far as somebody looks.
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
    /// Tokens 0 .. n - 1 are in their order, and weighed.
    void order(size_t n);
    /// Tokens of the shortest head that weighs `least` or more.
    size_t head(uint64_t least);
    uint64_t total() const;

    uint64_t* keys_;     // of the tokens that are left, size_ of them
    uint64_t* weights_;  // of the first ordered_
    size_t size_ = 0, ordered_ = 0;
    size_t taken_ = 0;   // without a scale: so many of the first
    uint64_t left_ = 0;  // what those weigh that have not been drawn
    RowLaw law_;
};

}  // namespace trireme
