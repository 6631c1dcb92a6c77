// The products of byte_dots_avx_vnni.cc with AVX-512's encoding of its instruction: only for the tests of kernels.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <hwy/highway.h>

#include "kernels/cpu/byte_dots.h"
#include "kernels/interleaved.h"
#include "runtime/error.h"

#if HWY_ARCH_X86_64
#include <immintrin.h>

namespace trireme {

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avx512f,avx512vl,avx512vnni")

namespace {

#define TRIREME_DPBUSD _mm256_dpbusd_epi32
#include "kernels/cpu/byte_vnni_256-inl.h"

}  // namespace

HWY_POP_ATTRIBUTES

const ByteProducts& byte_products_evex() {
    static constexpr ByteProducts products = {pack_row, multiply_any};
    return products;
}

}  // namespace trireme
#endif
