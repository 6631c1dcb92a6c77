#pragma once
/// One place of a tree of proposals, as kernels/acceptance.h asks for it, but for what walks the vocabulary: sums,
/// draws and p's becoming a residual are each backend's.

#include "kernels/law.h"

namespace trireme {

struct ProposalPlace {
    using Weight = uint64_t;
    using Wide = U128;

    const Proposal* nodes;    // of the tree
    const int32_t* children;  // of this place
    RowLaw law;               // the verifier's, of `row`
    LogitsRow row;
    uint64_t* residual;  // [vocab]: p behind a refusal, if there is another proposal
    bool is_residual = false;
    uint64_t residual_sum = 0;

    constexpr uint64_t p(int64_t i) const { return is_residual ? residual[i] : weight_at(law, row, i); }
    constexpr uint64_t p_sum() const { return is_residual ? residual_sum : law.sum; }
    constexpr const Proposal& child(int64_t c) const { return nodes[children[c]]; }
    constexpr int64_t token(int64_t c) const { return child(c).token; }
    /// With its elders left in: none of them asks for it any more, and having been refused they weigh nothing in p, so
    /// that no residual tells the difference.
    constexpr uint64_t q(int64_t c, int64_t i) const {
        const Proposal& x = child(c);
        return x.row.data == nullptr ? (i == x.token ? 1 : 0) : weight_at(*x.law, x.row, i);
    }
    constexpr uint64_t q_sum(int64_t c) const {
        if (child(c).row.data == nullptr) return 1;
        uint64_t sum = child(c).law->sum;
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
