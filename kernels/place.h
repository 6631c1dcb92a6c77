#pragma once
/// ProposalPlace: one position of a proposed tree, for settle() in kernels/acceptance.h. Backends add what walks the
/// vocabulary: sums, draws, and replacing p by a residual.

#include "kernels/distribution.h"

namespace trireme {

struct ProposalPlace {
    using Weight = uint64_t;
    using Wide = U128;

    const Proposal* nodes;         // the proposed tokens
    const int32_t* children;       // indices of the children at this position
    RowDistribution distribution;  // the verifier's, for `row`
    LogitsRow row;
    uint64_t* residual;  // [vocab]: p after a rejection, if another proposal follows
    bool is_residual = false;
    uint64_t residual_sum = 0;

    constexpr uint64_t p(int64_t i) const { return is_residual ? residual[i] : weight_at(distribution, row, i); }
    constexpr uint64_t p_sum() const { return is_residual ? residual_sum : distribution.sum; }
    constexpr const Proposal& child(int64_t c) const { return nodes[children[c]]; }
    constexpr int64_t token(int64_t c) const { return child(c).token; }
    /// Includes the earlier siblings: they were rejected, so p is 0 there, and residuals are the same without them.
    constexpr uint64_t q(int64_t c, int64_t i) const {
        const Proposal& x = child(c);
        return x.row.data == nullptr ? (i == x.token ? 1 : 0) : weight_at(*x.distribution, x.row, i);
    }
    constexpr uint64_t q_sum(int64_t c) const {
        if (child(c).row.data == nullptr) return 1;
        uint64_t sum = child(c).distribution->sum;
        for (int64_t elder = 0; elder < c; ++elder) sum -= q(c, token(elder));
        return sum;
    }
    constexpr bool happens(int64_t c, U128 a, U128 b) const { return below(child(c).uniform, a, b); }
    constexpr void set_residual(uint64_t sum) {
        is_residual = true;
        residual_sum = sum;
    }
};

}  // namespace trireme
