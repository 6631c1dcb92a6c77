// Products of interleaved weights for CPUs with AVX-VNNI.

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

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c,avxvnni")

namespace {

#define TRIREME_DPBUSD _mm256_dpbusd_avx_epi32
#include "kernels/cpu/byte_vnni_256-inl.h"

}  // namespace

HWY_POP_ATTRIBUTES

const ByteProducts& byte_products_avx_vnni() {
    static constexpr ByteProducts products = {pack_row, multiply_any};
    return products;
}

}  // namespace trireme
#endif
