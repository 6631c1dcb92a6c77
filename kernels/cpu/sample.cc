/// Sampling on the CPU: draws a token or several siblings from each row of logits, and reports its distribution
/// (kernels/sampling.h).

#include <exception>
#include <mutex>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_distribution.h"

namespace trireme {

size_t sample_scratch(const KernelLimits& limits, int threads) {
    return static_cast<size_t>(threads) * OrderedRow::scratch_bytes(limits.vocab);
}

void sample(const Tensor& ids, const Tensor& distributions, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
            const Tensor& ends, const SamplingRule& rule, void* scratch) {
    const int64_t rows = sampled_rows(ids, distributions, ends), stride = logits.dim(1) * logits.dim(2),
                  cols = logits.dim(2);
    const auto* end_of = static_cast<const int32_t*>(ends.data());
    const auto* u = static_cast<const int64_t*>(uniforms.data());
    auto* id = static_cast<int32_t*>(ids.data());
    const auto end = [&](int64_t r) { return id == nullptr ? 0 : end_of == nullptr ? r + 1 : int64_t{end_of[r]}; };
    const auto draw = [&](int64_t r, void* own) {
        int64_t next = r == 0 ? 0 : end(r - 1);
        OrderedRow row({static_cast<const float*>(logits.data()) + r * cols, cols, stride}, vocab, rule, end(r) - next,
                       own);
        if (distributions.data() != nullptr)
            static_cast<RowDistribution*>(distributions.data())[r] = row.distribution();
        for (; next < end(r); ++next) id[next] = row.draw(static_cast<uint64_t>(u[next]));
    };
    if (rows == 1) return draw(0, scratch);
    // All threads draw rows. An exception is thrown again here; if several rows fail, that of the first row.
    std::mutex mutex;
    std::exception_ptr failure;
    int64_t failed = rows;
    for_items(rows, vocab, [&](int64_t r, int thread) {
        try {
            draw(r, static_cast<char*>(scratch) + static_cast<size_t>(thread) * OrderedRow::scratch_bytes(vocab));
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (r < failed) failure = std::current_exception();
            failed = std::min(failed, r);
        }
    });
    if (failure) std::rethrow_exception(failure);
}

}  // namespace trireme
