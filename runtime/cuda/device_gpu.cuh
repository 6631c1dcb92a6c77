#pragma once
/// DeviceGpu: the `Gpu` of gpu.h on a real GPU. run_body(): the kernel that runs a body. Only .cu files include this.

#include "runtime/cuda/launch_body.h"

namespace trireme::gpu {

extern __shared__ Bits16 trireme_shared[];

/// The tensor core instruction for f16 or bf16.
template <class T>
struct MmaType;
template <>
struct MmaType<f16> {
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};
template <>
struct MmaType<bf16> {
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
            "{%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};

class DeviceGpu {
  public:
    /// `fault`: the stream's record, in mapped host memory. `operation`: the name that a fault records.
    __device__ __forceinline__ DeviceGpu(DeviceFault* fault, const char* operation)
        : fault_(fault), operation_(operation) {}

    __device__ __forceinline__ int thread() const { return static_cast<int>(threadIdx.x); }
    __device__ __forceinline__ int block_x() const { return static_cast<int>(blockIdx.x); }
    __device__ __forceinline__ int block_y() const { return static_cast<int>(blockIdx.y); }
    __device__ __forceinline__ int block_z() const { return static_cast<int>(blockIdx.z); }
    __device__ __forceinline__ void* shared() const { return trireme_shared; }
    __device__ __forceinline__ void sync() const { __syncthreads(); }
    __device__ __forceinline__ float shuffle_xor(float x, int mask) const { return __shfl_xor_sync(~0u, x, mask); }
    __device__ __forceinline__ int shuffle_xor(int x, int mask) const { return __shfl_xor_sync(~0u, x, mask); }
    __device__ __forceinline__ uint64_t shuffle_xor(uint64_t x, int mask) const {
        return __shfl_xor_sync(~0u, static_cast<unsigned long long>(x), mask);
    }
    __device__ __forceinline__ uint32_t fetch_add(uint32_t* p, uint32_t x) const { return atomicAdd(p, x); }
    __device__ __forceinline__ float power_of_2(float x) const {
        float power;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
        return power;
    }
    template <class T>
    __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) const {
        MmaType<T>::mma(d, a, b);
    }
    template <class T>
    __device__ __forceinline__ Bits16 load16(const T* p) const {
        Bits16 bits;
        asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(bits.word[0]), "=r"(bits.word[1]), "=r"(bits.word[2]), "=r"(bits.word[3])
                     : "l"(p));
        return bits;
    }
    template <class T>
    __device__ __forceinline__ Bits16 stream16(const T* p) const {
        Bits16 bits;
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(bits.word[0]), "=r"(bits.word[1]), "=r"(bits.word[2]), "=r"(bits.word[3])
                     : "l"(p));
        return bits;
    }
    template <bool kTransposed>
    __device__ __forceinline__ Bits16 load_matrices(const uint16_t* row) const {
        Bits16 bits;
        const uint32_t from = address_in_shared(row);
        if constexpr (kTransposed) {
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(bits.word[0]), "=r"(bits.word[1]), "=r"(bits.word[2]), "=r"(bits.word[3])
                         : "r"(from)
                         : "memory");
        } else {
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(bits.word[0]), "=r"(bits.word[1]), "=r"(bits.word[2]), "=r"(bits.word[3])
                         : "r"(from)
                         : "memory");
        }
        return bits;
    }
    __device__ __forceinline__ void copy_async(void* to, const void* from, bool real) const {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address_in_shared(to)), "l"(from),
                     "r"(real ? 16 : 0)
                     : "memory");
    }
    __device__ __forceinline__ void end_copies() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
    template <int kLeft>
    __device__ __forceinline__ void wait_copies() const {
        asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
    }
    __device__ __forceinline__ void publish(uint32_t* p, uint32_t x) const {
        __threadfence_system();
        *static_cast<volatile uint32_t*>(p) = x;
    }
    __device__ __forceinline__ void await(const uint32_t* p, uint32_t x, const uint32_t* stop) const {
        constexpr int kLooks = 1024;  // at p for each one at *stop
        bool there = false;
        while (!there && *static_cast<const volatile uint32_t*>(stop) == 0) {
            for (int i = 0; !there && i < kLooks; ++i) {
                there = static_cast<int32_t>(*static_cast<const volatile uint32_t*>(p) - x) >= 0;
            }
        }
        __threadfence_system();
    }
    __device__ void fault(Fault kind, int64_t x, int64_t y) const {
        if (atomicCAS_system(&fault_->kind, 0, static_cast<int32_t>(kind)) != 0) return;
        fault_->x = x;
        fault_->y = y;
        fault_->operation = operation_;
        __threadfence_system();
    }

  private:
    static __device__ __forceinline__ uint32_t address_in_shared(const void* p) {
        return static_cast<uint32_t>(__cvta_generic_to_shared(p));
    }

    DeviceFault* fault_;
    const char* operation_;  // a host address
};

/// Returns the smallest number of blocks per SM that ptxas must leave registers for.
template <class Body>
constexpr int blocks_of_sm() {
    if constexpr (requires { Body::kBlocksOfSm; }) return Body::kBlocksOfSm;
    return 0;  // ptxas decides
}

/// The kernel of one body. On compute capability 9.0 or higher it begins with two instructions for programmatic
/// dependent launch (launch_kernel.h). Ahead of them it must not read or write memory: tests/device_code.py checks SASS
/// and PTX.
template <class Body>
__global__ void __launch_bounds__(Body::kThreads, blocks_of_sm<Body>())
    run_body(const __grid_constant__ typename Body::Args args, DeviceFault* fault, const char* operation) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    DeviceGpu gpu(fault, operation);
    Body::run(gpu, args);
}

}  // namespace trireme::gpu
