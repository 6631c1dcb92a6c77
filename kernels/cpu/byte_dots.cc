#include "kernels/cpu/byte_dots.h"

#include <algorithm>
#include <atomic>

#include <hwy/highway.h>

#include "runtime/error.h"

namespace trireme {
namespace {

ByteDots best() {
#if HWY_ARCH_X86_64
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
        return ByteDots::kVnni;
    }
    // All CPUs with AVX2 have F16C, for which clang 14 has no name here.
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return ByteDots::kAvx2;
#endif
    return ByteDots::kNone;
}

std::atomic<ByteDots> in_use{best()};

const ByteProducts& products() {
#if HWY_ARCH_X86_64
    if (byte_dots() == ByteDots::kVnni) return byte_products_512();
    if (byte_dots() == ByteDots::kAvx2) return byte_products_256();
#endif
    fail(Exit::kInternal, "this CPU has no dot products of bytes");
}

}  // namespace

ByteDots byte_dots() {
    return in_use.load(std::memory_order_relaxed);
}

void limit_byte_dots(ByteDots most) {
    in_use.store(std::min(most, best()), std::memory_order_relaxed);
}

void pack_bytes(const float* x, int64_t n, int64_t skip, int64_t k, bool two, std::byte* out) {
    products().pack(x, n, skip, k, two, out);
}

void multiply_bytes(const ByteProduct& p, int64_t begin, int64_t end) {
    products().multiply(p, begin, end);
}

}  // namespace trireme
