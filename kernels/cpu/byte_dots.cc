#include "kernels/cpu/byte_dots.h"

#include <algorithm>
#include <atomic>

#include <hwy/highway.h>
#if HWY_ARCH_X86_64
#include <cpuid.h>
#endif

#include "runtime/error.h"

namespace trireme {
namespace {

#if HWY_ARCH_X86_64
/// clang 14 has no name for it in __builtin_cpu_supports. CPUID leaf 7, subleaf 1: bit 4 of EAX.
bool has_avx_vnni() {
#ifdef TRIREME_NO_AVX_VNNI
    return false;
#else
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a >> 4 & 1) != 0;
#endif
}
#endif

ByteDots best() {
#if HWY_ARCH_X86_64
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        return ByteDots::kVnni;
    }
    // All CPUs with AVX2 have F16C, for which clang 14 has no name here.
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return has_avx_vnni() ? ByteDots::kAvxVnni : ByteDots::kAvx2;
    }
#endif
    return ByteDots::kNone;
}

std::atomic<ByteDots> in_use{best()};

const ByteProducts& products() {
#if HWY_ARCH_X86_64
    if (byte_dots() == ByteDots::kVnni) return byte_products_512();
#ifndef TRIREME_NO_AVX_VNNI
    if (byte_dots() == ByteDots::kAvxVnni) return byte_products_avx_vnni();
#endif
    if (byte_dots() == ByteDots::kAvx2) return byte_products_256();
#endif
    fail(Exit::kInternal, "this CPU has no dot products of bytes");
}

}  // namespace

ByteDots byte_dots() {
    return in_use.load(std::memory_order_relaxed);
}

void limit_byte_dots(ByteDots most) {
#if HWY_ARCH_X86_64
    if (most == ByteDots::kAvxVnni && !has_avx_vnni()) most = ByteDots::kAvx2;  // AVX-512 VNNI does not contain it
#endif
    in_use.store(std::min(most, best()), std::memory_order_relaxed);
}

void pack_bytes(const float* x, int64_t n, int64_t skip, int64_t k, bool two, std::byte* out) {
    products().pack(x, n, skip, k, two, out);
}

void multiply_bytes(const ByteProduct& p, int64_t begin, int64_t end) {
    products().multiply(p, begin, end);
}

}  // namespace trireme
