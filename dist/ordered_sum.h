#pragma once
/// ordered_sum(): the all_reduce of Comms that add on the CPU. Parts are added in rank order, at any length and on any
/// rank, so the sums are bitwise identical.

#include <algorithm>
#include <cstdint>

namespace trireme {

/// out[i] = part(0)[i] + part(1)[i] + ...; part(r) is rank r's row of n floats. `out` may be one of the parts.
template <class PartOf>
void ordered_sum(float* out, int ranks, int64_t n, const PartOf& part) {
    constexpr int64_t kBlock = 2048;  // floats: the sum remains in L1 while parts are read
    alignas(64) float sum[kBlock];
    if (ranks == 1) {
        if (out != part(0)) std::copy_n(part(0), n, out);
        return;
    }
    for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t count = std::min(kBlock, n - begin);
        const float* so_far = part(0) + begin;
        for (int r = 1; r < ranks; ++r) {
            const float* x = part(r) + begin;
            float* to = r + 1 < ranks ? sum : out + begin;
            for (int64_t i = 0; i < count; ++i) to[i] = so_far[i] + x[i];
            so_far = sum;
        }
    }
}

}  // namespace trireme
