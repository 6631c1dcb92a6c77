#pragma once
/// KeyDiff's scores on a GPU (ScoreBy::kKeyDiff): the keys of a head are compared with their mean direction. The same
/// bits as on the CPU (kernels/cpu/key_diff.h).

#include "kernels/chunks.h"
#include "kernels/cuda/kv.h"
#include "kernels/slot_rule.h"

namespace trireme::gpu {

/// The work of a block, which has a head.
struct KeyDifferences {
    struct Shared {
        float mean[kMostHeadDim];
        float of_mean;
    };
    /// Scores keys [begin, end) of `dim` elements: key(i) is the address of key i, score(i) a reference to its score.
    template <class Gpu, class Key, class Score>
    TRIREME_GPU static void run(Gpu& gpu, Shared& shared, int threads, int64_t begin, int64_t end, DType type,
                                int64_t dim, const Key& key, const Score& score) {
        if (type == DType::kQ8_0) return run_as<q8_0>(gpu, shared, threads, begin, end, dim, key, score);
        if (type == DType::kF16) return run_as<f16>(gpu, shared, threads, begin, end, dim, key, score);
        if (type == DType::kBF16) return run_as<bf16>(gpu, shared, threads, begin, end, dim, key, score);
        run_as<float>(gpu, shared, threads, begin, end, dim, key, score);
    }

  private:
    /// First a thread has a key, then an element of the mean, then a key again.
    template <class T, class Gpu, class Key, class Score>
    TRIREME_GPU static void run_as(Gpu& gpu, Shared& shared, int threads, int64_t begin, int64_t end, int64_t dim,
                                   const Key& key, const Score& score) {
        for (int64_t i = begin + gpu.thread(); i < end; i += threads) {
            const char* row = key(i);
            float square = 0;
            for (int64_t d = 0; d < dim; ++d) {
                const float x = element_as<T>(row, dim, d);
                square = fmaf(x, x, square);
            }
            score(i) = unit_factor(sqrtf(square));
        }
        gpu.sync();
        for (int64_t d = gpu.thread(); d < dim; d += threads) {
            float sum = 0;
            for (int64_t i = begin; i < end; ++i) sum = fmaf(element_as<T>(key(i), dim, d), score(i), sum);
            shared.mean[d] = sum;
        }
        gpu.sync();
        if (gpu.thread() == 0) {
            float square = 0;
            for (int64_t d = 0; d < dim; ++d) square = fmaf(shared.mean[d], shared.mean[d], square);
            shared.of_mean = unit_factor(sqrtf(square));
        }
        gpu.sync();
        for (int64_t i = begin + gpu.thread(); i < end; i += threads) {
            const char* row = key(i);
            float dot = 0;
            for (int64_t d = 0; d < dim; ++d) dot = fmaf(element_as<T>(row, dim, d), shared.mean[d], dot);
            score(i) = difference_score(dot, score(i), shared.of_mean);
        }
        gpu.sync();
    }
};

}  // namespace trireme::gpu
