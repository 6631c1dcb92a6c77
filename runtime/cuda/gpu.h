#pragma once
/// The interface of GPU kernel bodies: plain C++ that nvcc compiles for a GPU, and any compiler for the host, where
/// tests/simt runs it.
///
/// A body is a struct with `Args` (the launch arguments, passed by value), `kThreads`, and
///     template <class Gpu> TRIREME_GPU static void run(Gpu& gpu, const Args& args);
/// which one thread of a block executes. `kSharedBytes` is optional, as is `kBlocksOfSm`: the number of blocks that
/// must fit into an SM's registers. Gpu is the thread's view of its machine:
///     thread()                        index in the block, below kThreads
///     block_x(), block_y(), block_z() index of the block in the grid
///     sync()                          waits for all threads of the block
///     shuffle_xor(x, mask)            x of the lane whose index differs by mask; all 32 lanes of the warp take part
///     fetch_add(p, x)                 returns *p and adds x to it, atomically, in shared memory
///     power_of_2(x)                   2^x, or 0 where that is below 2^-126; its error is 2 units in the last place
///     mma<T>(d, a, b)                 d += a b for one m16n8k16 tile of f16 or bf16, fragments as in the PTX ISA
///     load_matrices<transposed>(row)  four 8 x 8 matrices of 16-bit elements from shared memory (ldmatrix.x4): lane l
///                                     names row l % 8 of matrix l / 8, 16-byte aligned, and gets in word i elements
///                                     2(l % 4) and the next of row l / 4 of matrix i, or of its transpose
///     copy_async(to, from, real)      starts a copy of 16 bytes, both aligned, from global to shared memory; zeros if
///                                     not `real`. The copies since the last end_copies() form a group
///     end_copies()                    ends a group of this thread's copies; it may be empty
///     wait_copies<n>()                waits for this thread's groups but the last n; other threads see the bytes after
///                                     a sync()
///     shared()                        the block's shared memory, 16-byte aligned, uninitialised
///     load16(p)                       16 bytes, 16-byte aligned, of global memory that this kernel does not write
///     stream16(p)                     like load16, for bytes that will not be read again
///     publish(p, x)                   stores x at p in host memory, for other GPUs and the host, after all that the
///                                     block wrote before its last sync()
///     await(p, x, stop)               waits until the word at p in host memory is x or later (modulo 2^32), or *stop
///     is
///                                     not 0; after the next sync() the block sees what preceded the publish() of it
///     fault(kind, x, y)               records an error, which the stream's synchronize() throws; the thread continues.
///                                     Only a stream's first fault is recorded
/// Pointers in Args point to global memory. The order of additions never depends on the launch.

#include <bit>
#include <cmath>
#include <cstdint>

#include "runtime/dtype.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define TRIREME_GPU __device__ __forceinline__
#define TRIREME_HOST_GPU __host__ __device__ __forceinline__
#define TRIREME_UNROLL _Pragma("unroll")
#define TRIREME_NO_UNROLL _Pragma("unroll 1")
#else
#define TRIREME_GPU inline
#define TRIREME_HOST_GPU inline
#define TRIREME_UNROLL
#define TRIREME_NO_UNROLL
#endif

namespace trireme::gpu {

inline constexpr int kWarp = 32;

/// An error that a kernel found in the contents of its operands; shapes are checked before any launch. 0: none. The
/// kernels define the values (kernels/cuda/fault.h).
enum class Fault : int32_t;

/// The first fault of a stream. What x and y are depends on the kind (kernels/cuda/fault.h).
struct FaultRecord {
    Fault kind{};
    int64_t x = 0, y = 0;
};

/// Number of blocks of a launch, in each direction.
struct Grid {
    int64_t x = 1, y = 1, z = 1;
};

/// Rows of T, `stride` elements apart.
template <class T>
struct Rows {
    T* data;
    int64_t stride;

    TRIREME_GPU T* operator()(int64_t row) const { return data + row * stride; }
};

/// 16 bytes that are loaded and stored together.
struct alignas(16) Bits16 {
    uint32_t word[4];
};

/// Returns x as a float, exactly.
TRIREME_GPU float widen(float x) {
    return x;
}
TRIREME_GPU float widen(f16 x) {
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(x.bits));
#else
    return static_cast<float>(x);
#endif
}
TRIREME_GPU float widen(bf16 x) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
#else
    return static_cast<float>(x);
#endif
}

/// Returns element i of the 8 in `bits`; T is f16 or bf16.
template <class T>
TRIREME_GPU T element(const Bits16& bits, int i) {
    T x;
    x.bits = static_cast<uint16_t>(bits.word[i / 2] >> (16 * (i % 2)));
    return x;
}

/// Stores x in *to, rounded to its type: to nearest, ties to even.
TRIREME_GPU void narrow(float x, float* to) {
    *to = x;
}
TRIREME_GPU void narrow(float x, f16* to) {
#ifdef __CUDA_ARCH__
    to->bits = __half_as_ushort(__float2half_rn(x));
#else
    *to = f16(x);
#endif
}
TRIREME_GPU void narrow(float x, bf16* to) {
#ifdef __CUDA_ARCH__
    to->bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
#else
    *to = bf16(x);
#endif
}

/// Rows of f32, f16 or bf16 that a kernel writes, `stride` elements apart.
struct RoundedRows {
    void* data;
    int64_t stride;
    DType type = DType::kF32;

    /// Stores x as element i of a row, rounded to the rows' type.
    TRIREME_GPU void put(int64_t row, int64_t i, float x) const {
        const int64_t at = row * stride + i;
        if (type == DType::kF16) return narrow(x, static_cast<f16*>(data) + at);
        if (type == DType::kBF16) return narrow(x, static_cast<bf16*>(data) + at);
        static_cast<float*>(data)[at] = x;
    }
};

/// Two numbers, rounded to T (f16 or bf16), as one register of an mma fragment: `low` has the lower half.
template <class T>
TRIREME_GPU uint32_t pack(float low, float high) {
    T a, b;
    narrow(low, &a);
    narrow(high, &b);
    return static_cast<uint32_t>(a.bits) | static_cast<uint32_t>(b.bits) << 16;
}

TRIREME_GPU uint32_t bits_of(float x) {
#ifdef __CUDA_ARCH__
    return __float_as_uint(x);
#else
    return std::bit_cast<uint32_t>(x);
#endif
}
TRIREME_GPU float float_of(uint32_t bits) {
#ifdef __CUDA_ARCH__
    return __uint_as_float(bits);
#else
    return std::bit_cast<float>(bits);
#endif
}

TRIREME_GPU float infinity() {
#ifdef __CUDA_ARCH__
    return __int_as_float(0x7f800000);
#else
    return INFINITY;
#endif
}

TRIREME_HOST_GPU int64_t div_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
TRIREME_GPU int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}
TRIREME_GPU int64_t max_of(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/// Returns the sum over a warp, identical in every lane; additions are in the butterfly's order. All 32 lanes call it.
template <class Gpu>
TRIREME_GPU float warp_sum(Gpu& gpu, float x) {
    for (int mask = kWarp / 2; mask > 0; mask /= 2) x += gpu.shuffle_xor(x, mask);
    return x;
}
template <class Gpu>
TRIREME_GPU float warp_max(Gpu& gpu, float x) {
    for (int mask = kWarp / 2; mask > 0; mask /= 2) x = fmaxf(x, gpu.shuffle_xor(x, mask));
    return x;
}

/// Returns the sum over the block, identical in every thread; warps are added in order. All threads call it. It uses
/// the first kThreads / 32 floats of shared memory; other uses of these need a sync() before and after.
template <int kThreads, class Gpu>
TRIREME_GPU float block_sum(Gpu& gpu, float x) {
    float* sums = static_cast<float*>(gpu.shared());
    x = warp_sum(gpu, x);
    if (gpu.thread() % kWarp == 0) sums[gpu.thread() / kWarp] = x;
    gpu.sync();
    float total = 0;
    for (int w = 0; w < kThreads / kWarp; ++w) total += sums[w];
    return total;
}

/// Returns the largest x of the block, in every thread; uses shared memory like block_sum.
template <int kThreads, class Gpu>
TRIREME_GPU float block_max(Gpu& gpu, float x) {
    float* tops = static_cast<float*>(gpu.shared());
    x = warp_max(gpu, x);
    if (gpu.thread() % kWarp == 0) tops[gpu.thread() / kWarp] = x;
    gpu.sync();
    float top = tops[0];
    for (int w = 1; w < kThreads / kWarp; ++w) top = fmaxf(top, tops[w]);
    return top;
}

}  // namespace trireme::gpu
