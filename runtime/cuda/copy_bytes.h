#pragma once
/// CopyBytes: a kernel that copies from pinned host memory or device memory to device memory. CudaStream uses it for
/// small copies, because the copy engine may be busy for 10 ms with streamed tiles.

#include <cstddef>
#include <cstdint>

#include "runtime/cuda/gpu.h"

namespace trireme::gpu {

/// to[i] = from[i]. Each thread copies one piece of 16 bytes, or one byte where an address or the length is not a
/// multiple of 16.
struct CopyBytes {
    static constexpr int kThreads = 256;
    struct Args {
        char* to;
        const char* from;
        int64_t pieces;  // number of pieces: of 16 bytes if `wide`, of 1 byte if not
        bool wide;
    };
    static Args args(void* to, const void* from, size_t bytes) {
        const bool wide =
            is_wide(bytes) && is_wide(reinterpret_cast<uintptr_t>(to)) && is_wide(reinterpret_cast<uintptr_t>(from));
        return {static_cast<char*>(to), static_cast<const char*>(from),
                static_cast<int64_t>(wide ? bytes / sizeof(Bits16) : bytes), wide};
    }
    static Grid grid(const Args& a) { return {div_up(a.pieces, kThreads)}; }

    template <class Gpu>
    TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        const int64_t i = static_cast<int64_t>(gpu.block_x()) * kThreads + gpu.thread();
        if (i >= a.pieces) return;
        if (a.wide) {
            reinterpret_cast<Bits16*>(a.to)[i] = reinterpret_cast<const Bits16*>(a.from)[i];
        } else {
            a.to[i] = a.from[i];
        }
    }

  private:
    static constexpr bool is_wide(uintptr_t x) { return x % sizeof(Bits16) == 0; }
};

/// Returns the address by which CUDA's functions know the kernel of CopyBytes.
const void* copy_kernel();

}  // namespace trireme::gpu
