#pragma once
/// Choosing the largest of many keys by one block, and numbering what it has chosen.

#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

template <int kThreads>
struct SelectShared {
    static constexpr int kDigits = 256;
    uint32_t counts[kDigits], of_thread[kThreads];
};

/// The n-th largest of the keys key_of(0) to key_of(count - 1), by digits of 8 bits, from counts alone.
template <int kThreads, class Gpu, class KeyOf>
TRIREME_GPU uint64_t nth_largest(Gpu& gpu, SelectShared<kThreads>& shared, const KeyOf& key_of, int64_t count,
                                 int64_t n) {
    constexpr int kDigits = SelectShared<kThreads>::kDigits;
    uint64_t prefix = 0;
    auto wanted = static_cast<uint32_t>(n);
    for (int shift = 64 - 8; shift >= 0; shift -= 8) {
        for (int d = gpu.thread(); d < kDigits; d += kThreads) shared.counts[d] = 0;
        gpu.sync();
        for (int64_t i = gpu.thread(); i < count; i += kThreads) {
            const uint64_t key = key_of(i);
            const bool same = shift == 64 - 8 || key >> (shift + 8) == prefix;
            if (same) gpu.fetch_add(&shared.counts[key >> shift & (kDigits - 1)], 1);
        }
        gpu.sync();
        int digit = kDigits - 1;
        while (shared.counts[digit] < wanted) wanted -= shared.counts[digit--];
        prefix = prefix << 8 | static_cast<uint64_t>(digit);
        gpu.sync();  // everybody has read the counts
    }
    return prefix;
}

/// Consecutive elements, a thread's share of n.
struct Piece {
    int64_t begin, end;
};
template <int kThreads>
TRIREME_GPU Piece piece_of(int thread, int64_t n) {
    return {thread * n / kThreads, (thread + 1) * n / kThreads};
}

/// What the threads before this one have counted, and all of them.
struct Counted {
    uint32_t before = 0, all = 0;
};
template <int kThreads, class Gpu>
TRIREME_GPU Counted count_before(Gpu& gpu, SelectShared<kThreads>& shared, uint32_t mine) {
    gpu.sync();  // everybody has read an earlier count
    shared.of_thread[gpu.thread()] = mine;
    gpu.sync();
    Counted c;
    for (int t = 0; t < kThreads; ++t) {
        if (t == gpu.thread()) c.before = c.all;
        c.all += shared.of_thread[t];
    }
    return c;
}

}  // namespace trireme::gpu
