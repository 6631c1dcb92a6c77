/// Sampling: a row of logits to a token, or to several siblings, and to the law that they were drawn from
/// (kernels/sampling.h).

#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_law.h"

namespace trireme {

size_t sample_scratch(const KernelLimits& limits) {
    return OrderedRow::scratch_bytes(limits.vocab);
}

void sample(const Tensor& ids, const Tensor& laws, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
            const Tensor& ends, const SamplingRule& rule, void* scratch) {
    const int64_t rows = logits.dim(1), cols = logits.dim(2);
    const auto* end_of = static_cast<const int32_t*>(ends.data());
    const auto* u = static_cast<const int64_t*>(uniforms.data());
    auto* id = static_cast<int32_t*>(ids.data());
    int64_t next = 0;
    for (int64_t r = 0; r < rows; ++r) {
        const int64_t end = id == nullptr ? 0 : end_of == nullptr ? r + 1 : end_of[r];
        OrderedRow row({static_cast<const float*>(logits.data()) + r * cols, cols, rows * cols}, vocab, rule,
                       end - next, scratch);
        if (laws.data() != nullptr) static_cast<RowLaw*>(laws.data())[r] = row.law();
        for (; next < end; ++next) id[next] = row.draw(static_cast<uint64_t>(u[next]));
    }
}

}  // namespace trireme
