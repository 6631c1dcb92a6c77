/// Acceptance of a tree of proposals on the CPU: kernels/acceptance.h, one thread.

#include "kernels/acceptance.h"
#include "kernels/cpu/ops.h"
#include "kernels/place.h"

namespace trireme {
namespace {

struct CpuPlace : ProposalPlace {
    int64_t vocab;
    uint64_t draws;  // the uniform of the draw

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
            residual[i] = static_cast<uint64_t>(weigh(i) >> shift);
            sum += residual[i];
        }
        set_residual(sum);
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

void accept(const Tensor& out, const Tensor& logits, const Tensor& distributions, const Tensor& proposals,
            int64_t vocab, void* scratch) {
    const int64_t n = proposals.dim(0) - 1, rows = distributions.dim(0), cols = logits.dim(2);
    const auto* nodes = static_cast<const Proposal*>(proposals.data()) + 1;
    auto* result = static_cast<int32_t*>(out.data());
    int32_t at = -1, kept = 0, children[kMaxRows];
    int64_t drawn = -1;
    for (;;) {
        int64_t count = 0;
        for (int32_t i = 0; i < n; ++i) {
            if (nodes[i].parent == at) children[count++] = i;
        }
        const int64_t r = rows - n + at;  // the position's row among the verifier's
        CpuPlace place{{.nodes = nodes,
                        .children = children,
                        .distribution = static_cast<const RowDistribution*>(distributions.data())[r],
                        .row = {static_cast<const float*>(logits.data()) + r * cols, cols, logits.dim(1) * cols},
                        .residual = static_cast<uint64_t*>(scratch)},
                       vocab,
                       nodes[-1].uniform};
        const int64_t stays = settle(place, count, drawn);
        if (stays < 0) break;
        at = children[stays];
        result[2 + kept++] = at;
    }
    result[0] = kept;
    result[1] = static_cast<int32_t>(drawn);
}

}  // namespace trireme
