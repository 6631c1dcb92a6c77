#include "dist/shared_sums.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>

#include "dist/ordered_sum.h"
#include "dist/patience.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using Number = std::atomic_ref<uint64_t>;
static_assert(Number::is_always_lock_free, "a lock would be another one in each process");

// In slices, each of W ranks reads 2 (W - 1) / W of a chunk; whole, W - 1. For two ranks both are equal, and whole
// needs one meeting only. For more, the second meeting costs as much as reading a few KiB.
constexpr Slicing slicing_of(int ranks, int64_t most) {
    return {.whole = ranks <= 2 ? most : 2048, .unit = 16};  // floats: slices begin on cache lines
}

// Longer than ranks with unequal parts wait for each other. With another busy program, two ranks can share a core, and
// one that polls for a time slice blocks the other: 3 to 80 tokens/s with 10 ms, 20 to 70 with this; bench_decode.
constexpr std::chrono::microseconds kKeepsCore(200);

}  // namespace

SharedSums::SharedSums(std::byte* memory, int rank, int ranks, Watchdog& watchdog, bool crowded)
    : parts_(reinterpret_cast<Part*>(memory)),
      rank_(rank),
      ranks_(ranks),
      slicing_(slicing_of(ranks, kSlotFloats)),
      watchdog_(watchdog),
      crowded_(crowded) {
    check(reinterpret_cast<uintptr_t>(memory) % kPage == 0, "shared sums: memory begins within a page");
}

/// Barrier: what ranks wrote before it, all can read after it. It also compares the lengths of their calls.
void SharedSums::meet(const char* call, size_t bytes) {
    const uint64_t meeting = ++meetings_;
    part(rank_).bytes[meeting % 2] = bytes;
    Number(part(rank_).met).store(meeting, std::memory_order_release);
    Patience patience(crowded_ ? std::chrono::microseconds(0) : kKeepsCore);
    for (int d = 1; d < ranks_; ++d) {
        const int peer = (rank_ + d) % ranks_;
        while (Number(part(peer).met).load(std::memory_order_acquire) < meeting) patience.wait();
        // A peer that is one meeting ahead has written the other length; it cannot get further without this rank.
        const uint64_t sent = part(peer).bytes[meeting % 2];
        check(sent == bytes, "{}: rank {} sent {} bytes, rank {} expected {}", call, peer, sent, rank_, bytes);
    }
}

void SharedSums::all_reduce(float* x, int64_t n) {
    const Watchdog::Watch watch(watchdog_, Watchdog::kDevice, "all_reduce");
    const size_t bytes = static_cast<size_t>(n) * sizeof(float);
    for (int64_t begin = 0; begin < n; begin += kSlotFloats) add(x + begin, std::min(kSlotFloats, n - begin), bytes);
}

/// Adds a chunk of n floats of a vector of `bytes`.
void SharedSums::add(float* x, int64_t n, size_t bytes) {
    constexpr const char* kCall = "all_reduce";
    ++chunks_;
    float* own = slot(rank_);
    if (n <= slicing_.whole) {
        std::copy(x, x + n, own);
        meet(kCall, bytes);
        ordered_sum(x, ranks_, n, [&](int r) { return r == rank_ ? x : slot(r); });
        return;
    }
    // Publish the other ranks' slices of this vector, then this rank's summed slice, which no rank reads before.
    const Slice mine = slicing_.of(n, rank_, ranks_);
    const int64_t end = mine.begin + mine.count;
    std::copy(x, x + mine.begin, own);
    std::copy(x + end, x + n, own + end);
    meet(kCall, bytes);
    float* sum = x + mine.begin;
    ordered_sum(sum, ranks_, mine.count, [&](int r) { return r == rank_ ? sum : slot(r) + mine.begin; });
    std::copy(sum, x + end, own + mine.begin);
    meet(kCall, bytes);
    for (int d = 1; d < ranks_; ++d) {
        const int peer = (rank_ + d) % ranks_;
        const Slice theirs = slicing_.of(n, peer, ranks_);
        std::copy_n(slot(peer) + theirs.begin, theirs.count, x + theirs.begin);
    }
}

void SharedSums::all_gather(char* out, const char* part, size_t bytes) {
    constexpr const char* kCall = "all_gather";
    const Watchdog::Watch watch(watchdog_, Watchdog::kDevice, kCall);
    char* own = out + static_cast<size_t>(rank_) * bytes;
    if (own != part) std::memcpy(own, part, bytes);
    for (size_t begin = 0; begin < bytes; begin += kSlotBytes) {
        const size_t count = std::min(kSlotBytes, bytes - begin);
        ++chunks_;
        std::memcpy(slot(rank_), own + begin, count);
        meet(kCall, bytes);
        for (int d = 1; d < ranks_; ++d) {
            const int peer = (rank_ + d) % ranks_;
            std::memcpy(out + static_cast<size_t>(peer) * bytes + begin, slot(peer), count);
        }
    }
}

}  // namespace trireme
