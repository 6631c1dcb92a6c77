/// Acceptance of a tree of proposals on the CPU: kernels/acceptance.h, one thread.

#include <bit>

#include "kernels/acceptance.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_law.h"

namespace trireme {
namespace {

/// One place of the tree, as settle() wants it.
struct CpuPlace {
    using Weight = uint64_t;
    using Wide = U128;

    const Proposal* nodes;    // of the tree
    const int32_t* children;  // of this place
    int64_t vocab;
    uint64_t draws;  // the uniform of the draw
    RowLaw law;      // the verifier's
    LogitsRow row;
    uint64_t* explicit_p;  // [vocab]: p after a second refusal
    bool is_explicit = false;
    uint64_t explicit_sum = 0;

    uint64_t p(int64_t i) const { return is_explicit ? explicit_p[i] : weight_at(law, row, i); }
    uint64_t p_sum() const { return is_explicit ? explicit_sum : law.sum; }
    const Proposal& child(int64_t c) const { return nodes[children[c]]; }
    int64_t token(int64_t c) const { return child(c).token; }
    uint64_t alone(int64_t c, int64_t i) const {
        const Proposal& x = child(c);
        return x.row.data == nullptr ? (i == x.token ? 1 : 0) : weight_at(*x.law, x.row, i);
    }
    uint64_t q(int64_t c, int64_t i) const {
        if (child(c).row.data != nullptr) {
            for (int64_t elder = 0; elder < c; ++elder) {
                if (token(elder) == i) return 0;
            }
        }
        return alone(c, i);
    }
    uint64_t q_sum(int64_t c) const {
        if (child(c).row.data == nullptr) return 1;
        uint64_t sum = child(c).law->sum;
        for (int64_t elder = 0; elder < c; ++elder) sum -= alone(c, token(elder));
        return sum;
    }
    bool happens(int64_t c, Wide a, Wide b) const { return below(child(c).uniform, a, b); }

    template <class Weigh>
    Wide total(const Weigh& weigh) const {
        Wide sum = 0;
        for (int64_t i = 0; i < vocab; ++i) sum += weigh(i);
        return sum;
    }
    template <class Weigh>
    void become(const Weigh& weigh) {
        const int shift = rounding_shift(total(weigh));
        uint64_t sum = 0;
        for (int64_t i = 0; i < vocab; ++i) {
            explicit_p[i] = static_cast<uint64_t>(weigh(i) >> shift);
            sum += explicit_p[i];
        }
        is_explicit = true;
        explicit_sum = sum;
    }
    template <class Weigh>
    int64_t draw(const Weigh& weigh) const {
        const Wide all = total(weigh);
        if (all == 0) return -1;
        const Wide before = share(draws, all);
        Wide sum = 0;
        int64_t i = -1;
        do sum += weigh(++i);
        while (sum <= before);
        return i;
    }
};

}  // namespace

size_t accept_scratch(const KernelLimits& limits) {
    return static_cast<size_t>(limits.vocab) * sizeof(uint64_t);
}

void accept(const Tensor& out, const Tensor& logits, const Tensor& laws, const Tensor& proposals, int64_t vocab,
            void* scratch) {
    const int64_t n = proposals.dim(0) - 1, rows = logits.dim(1), cols = logits.dim(2);
    const auto* nodes = static_cast<const Proposal*>(proposals.data()) + 1;
    auto* result = static_cast<int32_t*>(out.data());
    int32_t at = -1, kept = 0, children[kMaxRows];
    int64_t drawn = -1;
    for (;;) {
        int64_t count = 0;
        for (int32_t i = 0; i < n; ++i) {
            if (nodes[i].parent == at) children[count++] = i;
        }
        const int64_t r = rows - n + at;  // the place's row among the verifier's
        CpuPlace place{.nodes = nodes,
                       .children = children,
                       .vocab = vocab,
                       .draws = nodes[-1].uniform,
                       .law = static_cast<const RowLaw*>(laws.data())[r],
                       .row = {static_cast<const float*>(logits.data()) + r * cols, cols, rows * cols},
                       .explicit_p = static_cast<uint64_t*>(scratch)};
        const int64_t stays = settle(place, count, drawn);
        if (stays < 0) break;
        at = children[stays];
        result[2 + kept++] = at;
    }
    result[0] = kept;
    result[1] = static_cast<int32_t>(drawn);
}

}  // namespace trireme
