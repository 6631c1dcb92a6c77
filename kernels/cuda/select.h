#pragma once
/// Selection by one block: the n-th largest of many keys, and numbering what was selected.

#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// Shared memory of the functions below.
template <int kThreads>
struct SelectShared {
    static constexpr int kBits = 8, kDigits = 1 << kBits;
    static_assert(64 % kBits == 0, "digits divide a key");
    uint32_t counts[kDigits], of_thread[kThreads];
};

/// Returns the n-th largest of the keys key_of(0) to key_of(count - 1) in every thread, by counting digits. Requires
/// 1 <= n <= count < 2^32. Keys that the block wrote before the call are visible.
template <int kThreads, class Gpu, class KeyOf>
TRIREME_GPU uint64_t nth_largest(Gpu& gpu, SelectShared<kThreads>& shared, const KeyOf& key_of, int64_t count,
                                 int64_t n) {
    constexpr int kBits = SelectShared<kThreads>::kBits, kDigits = SelectShared<kThreads>::kDigits;
    uint64_t prefix = 0;
    auto wanted = static_cast<uint32_t>(n);
    for (int shift = 64 - kBits; shift >= 0; shift -= kBits) {
        for (int d = gpu.thread(); d < kDigits; d += kThreads) shared.counts[d] = 0;
        gpu.sync();
        for (int64_t i = gpu.thread(); i < count; i += kThreads) {
            const uint64_t key = key_of(i);
            const bool same = shift == 64 - kBits || key >> (shift + kBits) == prefix;
            if (same) gpu.fetch_add(&shared.counts[key >> shift & (kDigits - 1)], 1);
        }
        gpu.sync();
        int digit = kDigits - 1;
        while (shared.counts[digit] < wanted) wanted -= shared.counts[digit--];
        prefix = prefix << kBits | static_cast<uint64_t>(digit);
        gpu.sync();  // all threads have read the counts
    }
    return prefix;
}

/// A thread's share of n elements, which are consecutive.
struct Piece {
    int64_t begin, end;
};
template <int kThreads>
TRIREME_GPU Piece piece_of(int thread, int64_t n) {
    return {thread * n / kThreads, (thread + 1) * n / kThreads};
}

/// Sums of what threads counted: of the threads before this one, and of all.
struct Counted {
    uint32_t before = 0, all = 0;
};
/// Returns these sums of the threads' counts `mine`. Writes of the block before the call are visible after it.
template <int kThreads, class Gpu>
TRIREME_GPU Counted count_before(Gpu& gpu, SelectShared<kThreads>& shared, uint32_t mine) {
    gpu.sync();  // all threads have read an earlier count
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
