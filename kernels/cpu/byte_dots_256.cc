// Products of interleaved weights for CPUs with AVX2.

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

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c")

namespace {

#include "kernels/cpu/byte_lanes_256-inl.h"
#include "kernels/cpu/byte_sums_avx2-inl.h"
#include "kernels/cpu/byte_tiles-inl.h"

}  // namespace

HWY_POP_ATTRIBUTES

const ByteProducts& byte_products_256() {
    static constexpr ByteProducts products = {pack_row, multiply_any};
    return products;
}

}  // namespace trireme
#endif
