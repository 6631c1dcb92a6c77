#pragma once
/// Collectives of ranks that have memory in common: no message, no system call, nothing allocated.

#include <cstddef>
#include <cstdint>

#include "dist/slices.h"
#include "dist/watchdog.h"

namespace trireme {

/// A rank copies a chunk of its vector into a slot of its own, says so, waits until all have, and adds what lies in all
/// slots. Slots alternate: who fills one again has met the others since they read it, so that a chunk costs one
/// meeting.
class SharedSums {
  public:
    static constexpr size_t kSlotBytes = 131072;  // 64 KiB: 5% slower from there on, and a third if ranks are crowded

    /// `memory`: bytes_of_rank() of each rank, zero, and this object's until all ranks' end. crowded: more ranks than
    /// cores, so a waiting one gives its core away.
    SharedSums(std::byte* memory, int rank, int ranks, Watchdog& watchdog, bool crowded);

    static size_t bytes_of_rank() { return sizeof(Part); }

    /// x = x_0 + x_1 + ... in rank order, whatever the length. Errors: Exit::kInternal, if lengths differ.
    void all_reduce(float* x, int64_t n);
    /// `bytes` of every rank in rank order; part may be this rank's own place in out. Errors: as above.
    void all_gather(char* out, const char* part, size_t bytes);

  private:
    static constexpr size_t kPage = 4096;
    static constexpr int64_t kSlotFloats = kSlotBytes / sizeof(float);

    /// What one rank writes, and the others read. Who looks for the number gets the length in the same cache line.
    struct Part {
        alignas(kPage) uint64_t met;  // meetings that the rank has come to
        uint64_t bytes[2];            // of its call, by the parity of the meeting
        alignas(kPage) std::byte slots[2][kSlotBytes];
    };

    Part& part(int rank) const { return parts_[rank]; }
    float* slot(int rank) const { return reinterpret_cast<float*>(part(rank).slots[chunks_ % 2]); }
    void meet(const char* call, size_t bytes);
    void add(float* x, int64_t n, size_t bytes);

    Part* parts_;
    int rank_, ranks_;
    Slicing slicing_;
    Watchdog& watchdog_;
    bool crowded_;
    uint64_t meetings_ = 0, chunks_ = 0;
};

}  // namespace trireme
