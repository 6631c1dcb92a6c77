/// Sampling: a row of logits to a token, and to the law that it was drawn from (kernels/sampling.h).

#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_law.h"

namespace trireme {

size_t sample_scratch(const KernelLimits& limits) {
    return OrderedRow::scratch_bytes(limits.vocab);
}

void sample(const Tensor& ids, const Tensor& laws, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
            const SamplingRule& rule, void* scratch) {
    const int64_t rows = logits.dim(1), cols = logits.dim(2);
    for (int64_t r = 0; r < rows; ++r) {
        OrderedRow row({static_cast<const float*>(logits.data()) + r * cols, cols, rows * cols}, vocab, rule, scratch);
        if (laws.data() != nullptr) static_cast<RowLaw*>(laws.data())[r] = row.law();
        if (ids.data() == nullptr) continue;
        const auto u = static_cast<uint64_t>(static_cast<const int64_t*>(uniforms.data())[r]);
        static_cast<int32_t*>(ids.data())[r] = row.draw(u);
    }
}

}  // namespace trireme
