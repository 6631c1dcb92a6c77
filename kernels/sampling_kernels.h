#pragma once
/// SamplingKernels: draw tokens from logits, and accept or reject proposed ones. kernels.h says what all operations
/// have in common.

#include <cstdint>

#include "kernels/distribution.h"
#include "kernels/kernel_limits.h"
#include "kernels/sampling.h"
#include "runtime/tensor.h"

namespace trireme {

/// Number of rows of logits that SamplingKernels::sample reads.
inline int64_t sampled_rows(const Tensor& ids, const Tensor& distributions, const Tensor& ends) {
    return ends ? ends.rows() : ids ? ids.rows() : distributions.rows();
}

class SamplingKernels {
  public:
    virtual ~SamplingKernels() = default;

    /// Draws a token from each row of logits (kernels/sampling.h): ids[r] is the token that uniform r selects.  ids i32
    /// [rows]; logits f32 [parts, rows or more, cols] contiguous, of which the first rows are read, id = part * cols +
    /// column, below `vocab`; uniforms i64 [rows], times 2^53. The stream fails with Exit::kData on a NaN or without a
    /// finite maximum.
    /// Optional output i64 [rows, kRowDistributionWords]: the distribution of each row (RowDistribution). Without `ids`
    /// and `uniforms`, nothing is drawn. With `ends`, i32 [rows], row r draws siblings: ids [ends[r - 1], ends[r]) of
    /// i32 [n], n at most kMaxRows; uniforms i64 [n]. Siblings are drawn one by one, with the weights of earlier
    /// siblings set to zero. A rule without a scale takes the largest logits in order. An id is -1 if no weight is
    /// left.
    void sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                const SamplingRule& rule, const Tensor& distributions = {}, const Tensor& ends = {});
    /// Accepts or rejects proposed tokens, and samples the token that follows (kernels/acceptance.h).  proposals i64
    /// [1 + n, kProposalWords] (Proposal): the first represents the sequence's last token; parents come before
    /// children. The verifier's logits f32 [parts, rows or more, cols] and distributions i64 [rows,
    /// kRowDistributionWords]: the last 1 + n rows belong to the proposals, in the same order. out i32 [2 + n]: the
    /// number of accepted tokens; the token that follows them; the indices of the accepted tokens, in order.
    void accept(const Tensor& out, const Tensor& logits, const Tensor& distributions, const Tensor& proposals,
                int64_t vocab);

  protected:
    explicit SamplingKernels(const KernelLimits& limits) : vocab_(limits.vocab) {}

  private:
    virtual void do_sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                           const SamplingRule& rule, const Tensor& distributions, const Tensor& ends) = 0;
    virtual void do_accept(const Tensor& out, const Tensor& logits, const Tensor& distributions,
                           const Tensor& proposals, int64_t vocab) = 0;

    int64_t vocab_;
};

}  // namespace trireme
