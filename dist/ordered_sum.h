#pragma once
/// The sum every implementation computes: parts are added in rank order, whatever the length and the rank.

#include <algorithm>
#include <cstdint>

namespace trireme {

/// out[i] = part(0)[i] + part(1)[i] + ...; part(r) is rank r's row of n floats. `out` may be one of the parts.
template <class PartOf>
void ordered_sum(float* out, int ranks, int64_t n, const PartOf& part) {
    constexpr int64_t kBlock = 2048;  // floats: sum and part stay in L1 while the parts pass
    alignas(64) float sum[kBlock];
    for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t count = std::min(kBlock, n - begin);
        const float* first = part(0) + begin;
        std::copy(first, first + count, sum);
        for (int r = 1; r < ranks; ++r) {
            const float* x = part(r) + begin;
            for (int64_t i = 0; i < count; ++i) sum[i] += x[i];
        }
        std::copy(sum, sum + count, out + begin);
    }
}

}  // namespace trireme
