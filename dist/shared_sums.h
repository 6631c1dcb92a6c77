#pragma once
/// SharedSums: the device calls of MpiComm for ranks that share memory. They need no message, no system call (unless a
/// rank waits long) and no allocation.

#include <cstddef>
#include <cstdint>

#include "dist/slices.h"
#include "dist/watchdog.h"

namespace trireme {

/// A rank copies a chunk of its vector into a slot of its own, meets all ranks, and adds the chunks in all slots. A
/// rank alternates between two slots. Before it fills one again, it has met the ranks that read it, so one meeting per
/// chunk suffices.
class SharedSums {
  public:
    static constexpr size_t kSlotBytes = 131072;  // 64 KiB would be 5% slower for longer vectors, a third if crowded

    /// `memory`: a SharedMemory of bytes_of_rank() for each rank, zeroed, which only the ranks' SharedSums use.
    /// `crowded`: more ranks than cores, so a waiting rank yields its core.
    SharedSums(std::byte* memory, int rank, int ranks, Watchdog& watchdog, bool crowded);

    static size_t bytes_of_rank() { return sizeof(Part); }

    /// x = x_0 + x_1 + ... in rank order, for n floats. Collective, and blocks. Errors: Exit::kInternal if ranks pass
    /// different lengths.
    void all_reduce(float* x, int64_t n);
    /// out = the `bytes` bytes at `part` of every rank, in rank order. `part` may be this rank's part of out. Otherwise
    /// like all_reduce().
    void all_gather(char* out, const char* part, size_t bytes);

  private:
    static constexpr size_t kPage = 4096;
    static constexpr int64_t kSlotFloats = kSlotBytes / sizeof(float);

    /// What one rank writes and the others read. The length of a call is in the cache line of the number that they
    /// poll.
    struct Part {
        alignas(kPage) uint64_t met;  // number of meetings that the rank has reached
        uint64_t bytes[2];            // length of its call at meeting i: bytes[i % 2]
        alignas(kPage) std::byte slots[2][kSlotBytes];
    };

    Part& part(int rank) const { return parts_[rank]; }
    float* slot(int rank) const { return reinterpret_cast<float*>(part(rank).slots[chunks_ % 2]); }
    void meet(const char* call, size_t bytes);    // a barrier, which compares the ranks' `bytes`
    void add(float* x, int64_t n, size_t bytes);  // all_reduce of a chunk of n floats

    Part* parts_;
    int rank_, ranks_;
    Slicing slicing_;
    Watchdog& watchdog_;
    bool crowded_;
    uint64_t meetings_ = 0, chunks_ = 0;  // numbers so far
};

}  // namespace trireme
