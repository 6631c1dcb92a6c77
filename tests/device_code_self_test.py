#!/usr/bin/env python3
"""Plants each fault that device_code.py looks for in a separate kernel, and expects that exactly these are named.

  device_code_self_test.py NVCC SCRATCH_FOLDER
"""
import pathlib
import subprocess
import sys

import device_code

ROOT = pathlib.Path(__file__).resolve().parent.parent

KERNELS = """
#include <cstdio>
#include "runtime/cuda/launch.cuh"
namespace trireme::gpu {
inline constexpr float kTable[3] = {1, 2, 4};
struct Planted {
    struct Args { float* out; const float* in; int n; };
};
struct Sound : Planted {
    static constexpr int kThreads = 64;
    template <class Gpu> TRIREME_GPU static void run(Gpu& gpu, const Args& a) { a.out[gpu.thread()] = a.in[gpu.thread()]; }
};
constexpr float of_table(int i) { return kTable[i]; }
struct HostVariable : Planted {
    static constexpr int kThreads = 64;
    template <class Gpu> TRIREME_GPU static void run(Gpu& gpu, const Args& a) { a.out[gpu.thread()] = of_table(a.n); }
};
struct IndexedArray : Planted {
    static constexpr int kThreads = 64;
    template <class Gpu> TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        float kept[64] = {};
        for (int i = 0; i < a.n; ++i) kept[static_cast<int>(a.in[i]) & 63] += 1;
        a.out[gpu.thread()] = kept[gpu.thread()];
    }
};
struct TooManyLiveValues : Planted {
    static constexpr int kThreads = 512, kBlocksOfSm = 3;
    template <class Gpu> TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        float kept[64];
        _Pragma("unroll") for (int i = 0; i < 64; ++i) kept[i] = a.in[gpu.thread() + i * a.n];
        gpu.sync();
        _Pragma("unroll") for (int i = 0; i < 64; ++i) a.out[gpu.thread() + (63 - i) * a.n] = kept[i] * kept[(i * 7 + 5) % 64];
    }
};
struct Prints : Planted {
    static constexpr int kThreads = 64;
    template <class Gpu> TRIREME_GPU static void run(Gpu& gpu, const Args& a) { if (a.n < 0) printf("negative"); }
};
struct OverBudget : Planted {
    static constexpr int kThreads = 64;
    template <class Gpu> TRIREME_GPU static void run(Gpu& gpu, const Args& a) {
        float kept[24];
        _Pragma("unroll") for (int i = 0; i < 24; ++i) kept[i] = a.in[gpu.thread() + i * a.n];
        gpu.sync();
        _Pragma("unroll") for (int i = 0; i < 24; ++i) a.out[gpu.thread() + i * a.n] = kept[23 - i];
    }
};
struct Early : Sound {};
template <>
__global__ void __launch_bounds__(64) run_body<Early>(const __grid_constant__ Planted::Args args, DeviceFault*, const char*) {
    const float x = *static_cast<const volatile float*>(args.in);
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    args.out[threadIdx.x] = x;
}
TRIREME_KERNEL(Early);
TRIREME_KERNEL(Sound);
TRIREME_KERNEL(HostVariable);
TRIREME_KERNEL(IndexedArray);
TRIREME_KERNEL(TooManyLiveValues);
TRIREME_KERNEL(Prints);
TRIREME_KERNEL(OverBudget);
}  // namespace trireme::gpu
"""
BUDGET = "16 OverBudget\n255 (Sound|Early|HostVariable|IndexedArray|TooManyLiveValues|Prints)\nallow frame 8 Prints\n"
IN_SASS = {("HostVariable", "traps"), ("IndexedArray", "frame"), ("IndexedArray", "local"), ("TooManyLiveValues", "frame"),
           ("TooManyLiveValues", "spills"), ("TooManyLiveValues", "local"), ("Prints", "calls"), ("OverBudget", "registers")}
IN_PTX = {("HostVariable", "traps"), ("IndexedArray", "local"), ("Prints", "calls")}
EXPECTED = {*((kernel, target, what) for kernel, what in IN_SASS for target in ("sm_89", "sm_90")),
            *((kernel, "compute_90", what) for kernel, what in IN_PTX),
            ("Early", "sm_90", "early"), ("Early", "compute_90", "early")}


def main():
    nvcc, scratch = sys.argv[1], pathlib.Path(sys.argv[2])
    if device_code.cuobjdump() is None:
        print("device_code_self_test: no cuobjdump: see tests/fetch_cuda_tools.sh")
        sys.exit(device_code.SKIPPED)
    scratch.mkdir(parents=True, exist_ok=True)
    source, budget = scratch / "planted.cu", scratch / "budget.txt"
    source.write_text(KERNELS)
    budget.write_text(BUDGET)
    subprocess.run([ROOT / "cmake/ptxas_log.sh", nvcc, "-std=c++20", "--expt-relaxed-constexpr", "-fmad=false", "-O3",
                    "-gencode=arch=compute_89,code=sm_89",
                    "-gencode=arch=compute_90,code=[sm_90,compute_90]", "-Xptxas=-v",
                    f"-I{ROOT}", "-c", source, "-o", scratch / "planted.cu.o"], check=True)
    lines, complaints, _ = device_code.check([scratch], device_code.Budget.read(budget))
    named = set()
    for complaint in complaints:
        kernel, rest = complaint.split(" for ", 1)
        target, what = rest.split(": ", 1)
        named.add((kernel, target, "registers" if "registers" in what else what.split(":")[0]))
    print("\n".join(lines + complaints))
    for missing in sorted(EXPECTED - named):
        print("not named:", *missing)
    for extra in sorted(named - EXPECTED):
        print("named without a reason:", *extra)
    sys.exit(named != EXPECTED)


main()
