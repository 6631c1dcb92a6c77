#include "model/files/convert.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/error.h"

namespace trireme {
namespace {

template <class Word>
int64_t first_with_exponent(const void* values, int64_t n, Word exponent) {
    using Alias [[gnu::may_alias]] = Word;  // floats are read as bits
    const auto* w = static_cast<const Alias*>(values);
    constexpr int64_t kBlock = 1024;
    for (int64_t i = 0; i < n; i += kBlock) {
        const int64_t end = std::min(n, i + kBlock);
        Word bad = 0;
        for (int64_t j = i; j < end; ++j) bad = static_cast<Word>(bad | ((w[j] & exponent) == exponent));
        if (!bad) continue;
        for (int64_t j = i; j < end; ++j) {
            if ((w[j] & exponent) == exponent) return j;
        }
    }
    return -1;
}

/// Exact for finite values, subnormals included: the exponent is re-biased by a multiplication.
float widen(uint16_t half) {
    const float magnitude = std::bit_cast<float>(static_cast<uint32_t>(half & 0x7fffu) << 13) * 0x1p112f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | static_cast<uint32_t>(half & 0x8000u) << 16);
}

/// Has no branches, so that it vectorises; equals f16(float) for every finite value (tested over all exponents).
uint16_t narrow(float x) {
    const uint32_t bits = std::bit_cast<uint32_t>(x), sign = bits & 0x80000000u, a = bits ^ sign;
    // Subnormal halves: adding 0.5 makes the float unit round at 2^-24, where the halves' last bit is.
    const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(a) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    // Masks, not conditions: with a condition the compiler makes the float addition depend on it, and does not
    // vectorise.
    const uint32_t is_small = 0u - static_cast<uint32_t>(a < 0x38800000u);
    const uint32_t is_large = 0u - static_cast<uint32_t>(a >= 0x477ff000u);
    const uint32_t finite = (small & is_small) | (normal & ~is_small);
    return static_cast<uint16_t>((finite & ~is_large) | (0x7c00u & is_large) | sign >> 16);
}

template <class In, class Out, class F>
void each(const void* in, void* out, int64_t n, F f) {
    const auto* x = static_cast<const In*>(in);
    auto* y = static_cast<Out*>(out);
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

}  // namespace

int64_t first_nonfinite(DType type, const void* values, int64_t n) {
    switch (type) {
        case DType::kF32:
            return first_with_exponent<uint32_t>(values, n, 0x7f800000u);
        case DType::kF16:
            return first_with_exponent<uint16_t>(values, n, 0x7c00u);
        case DType::kBF16:
            return first_with_exponent<uint16_t>(values, n, 0x7f80u);
        default:
            fail(Exit::kInternal, "first_nonfinite: {} is no floating type", name_of(type));
    }
}

void convert(DType from, const void* in, DType to, void* out, int64_t n) {
    const auto from_bf16 = [](bf16 x) { return static_cast<float>(x); };
    const auto to_bf16 = [](float x) { return bf16(x); };
    if (from == to) {
        if (n > 0) std::memcpy(out, in, static_cast<size_t>(n) * size_of(from));
    } else if (from == DType::kF32 && to == DType::kF16) {
        each<float, uint16_t>(in, out, n, narrow);
    } else if (from == DType::kF32 && to == DType::kBF16) {
        each<float, bf16>(in, out, n, to_bf16);
    } else if (from == DType::kF16 && to == DType::kF32) {
        each<uint16_t, float>(in, out, n, widen);
    } else if (from == DType::kF16 && to == DType::kBF16) {
        each<uint16_t, bf16>(in, out, n, [&](uint16_t x) { return to_bf16(widen(x)); });
    } else if (from == DType::kBF16 && to == DType::kF32) {
        each<bf16, float>(in, out, n, from_bf16);
    } else if (from == DType::kBF16 && to == DType::kF16) {
        each<bf16, uint16_t>(in, out, n, [&](bf16 x) { return narrow(from_bf16(x)); });
    } else {
        fail(Exit::kInternal, "convert: {} to {}", name_of(from), name_of(to));
    }
}

}  // namespace trireme
