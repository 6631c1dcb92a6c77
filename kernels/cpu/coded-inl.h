/// Products of weights in blocks with dot products of bf16 pairs (pairs-inl.h). A weight is code * scale + offset, with
/// a code that bf16 has exactly: a small whole number, or an FP8 number. A tile of weight rows is decoded to codes,
/// scales and offsets in the cache. Each row of x multiplies the codes, then the scales, in f32; and its sums over 16
/// elements multiply the offsets. So weights are not rounded.
#if defined(TRIREME_KERNELS_CPU_CODED_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_CODED_INL_H
#undef TRIREME_KERNELS_CPU_CODED_INL_H
#else
#define TRIREME_KERNELS_CPU_CODED_INL_H
#endif

#include <algorithm>
#include <array>

#include "kernels/cpu/pairs-inl.h"
#include "runtime/stored_type.h"

#ifndef TRIREME_KERNELS_CPU_CODED_ONCE
#define TRIREME_KERNELS_CPU_CODED_ONCE
namespace trireme {

/// Sums over 16 elements, of rows of k, in whole vectors.
constexpr int64_t coded_sums(int64_t k) {
    return (k / 16 + 15) / 16 * 16;
}
/// Floats of a decoded weight row.
constexpr int64_t coded_floats(int64_t k) {
    return k / 2 + 2 * coded_sums(k);
}

/// A decoded weight row of k elements: codes [k]; scales for 32 elements or 16; offsets for 16, then zeros up to
/// coded_sums(k).
struct CodedRow {
    bf16* codes;
    float *scales, *offsets;
};

/// Whether scales are for 16 elements; whether there are offsets.
constexpr bool scales_16(StoredType t) {
    return t == StoredType::kQ2_K || t == StoredType::kQ3_K || t == StoredType::kQ6_K;
}
constexpr bool has_offsets(StoredType t) {
    return t == StoredType::kQ4_1 || t == StoredType::kQ5_1 || t == StoredType::kQ2_K || t == StoredType::kQ4_K ||
           t == StoredType::kQ5_K;
}

/// bf16 numbers by code.
template <size_t N, class Value>
constexpr std::array<uint16_t, N> code_table(const Value& value) {
    std::array<uint16_t, N> table{};
    for (size_t i = 0; i < N; ++i) table[i] = bf16(static_cast<float>(value(static_cast<int>(i)))).bits;
    return table;
}
/// i - zero.
template <int kZero, size_t N = 32>
alignas(64) inline constexpr std::array<uint16_t, N> kStraight = code_table<N>([](int i) { return i - kZero; });
alignas(64) inline constexpr std::array<uint16_t, 32> kUnevenCodes = code_table<32>([](int i) {
    return kUnevenValues[i % 16];
});
alignas(64) inline constexpr std::array<uint16_t, 32> kE2m1Codes = code_table<32>([](int i) {
    return kE2m1Values[i % 16];
});

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

#if TRIREME_PAIRS
TRIREME_BEFORE_PAIRS

/// Writes 32 numbers of a table, one for each byte.
HWY_INLINE void put_codes(__m256i codes, const std::array<uint16_t, 32>& table, bf16* to) {
    const __m512i values = _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(codes), _mm512_load_si512(table.data()));
    _mm512_storeu_si512(to, values);
}
HWY_INLINE float half_at(const uint8_t* p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}
HWY_INLINE __m256i bytes_at(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
template <class Word>
HWY_INLINE Word word_at(const uint8_t* p) {
    Word word;
    std::memcpy(&word, p, sizeof word);
    return word;
}
HWY_INLINE __m256i low_nibbles(__m256i v) {
    return _mm256_and_si256(v, _mm256_set1_epi8(15));
}
HWY_INLINE __m256i high_nibbles(__m256i v) {
    return low_nibbles(_mm256_srli_epi16(v, 4));
}
/// Two bits of each byte, from bit `shift` on.
HWY_INLINE __m256i bit_pairs(__m256i v, int shift) {
    return _mm256_and_si256(_mm256_srl_epi16(v, _mm_cvtsi32_si128(shift)), _mm256_set1_epi8(3));
}
/// The low halves of 16 bytes, then the high ones.
HWY_INLINE __m256i both_halves(const uint8_t* p) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)), mask = _mm_set1_epi8(15);
    return _mm256_set_m128i(_mm_and_si128(_mm_srli_epi16(v, 4), mask), _mm_and_si128(v, mask));
}
/// Eight or sixteen bytes as f32 numbers, times `factor`.
HWY_INLINE void put_scales(uint64_t bytes, float factor, float* to) {
    const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(bytes))));
    _mm256_storeu_ps(to, _mm256_mul_ps(values, _mm256_set1_ps(factor)));
}
HWY_INLINE void put_scales(__m512i integers, float factor, float* to) {
    _mm512_storeu_ps(to, _mm512_mul_ps(_mm512_cvtepi32_ps(integers), _mm512_set1_ps(factor)));
}

/// Q4_0, Q4_1, Q5_0, Q5_1.
template <bool kFive, bool kOffset>
HWY_INLINE void code_small(const uint8_t* b, bf16* codes, float* scales, float* offsets) {
    constexpr int kZero = kOffset ? 0 : kFive ? 16 : 8;
    const uint8_t* q = b + 2 + (kOffset ? 2 : 0) + (kFive ? 4 : 0);
    __m256i v = both_halves(q);
    if constexpr (kFive) v = _mm256_or_si256(v, _mm256_maskz_set1_epi8(word_at<uint32_t>(q - 4), 16));
    put_codes(v, kStraight<kZero>, codes);
    *scales = half_at(b);
    if constexpr (kOffset) offsets[0] = offsets[1] = half_at(b + 2);
}

HWY_INLINE void code_q8_0(const uint8_t* b, bf16* codes, float* scales) {
    const __m256i v = bytes_at(b + 2);
    const __m512 low = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(v)));
    const __m512 high = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(v, 1)));
    _mm512_storeu_si512(codes, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    *scales = half_at(b);
}

HWY_INLINE void code_iq4_nl(const uint8_t* b, bf16* codes, float* scales) {
    put_codes(both_halves(b + 2), kUnevenCodes, codes);
    *scales = half_at(b);
}

HWY_INLINE void code_mxfp4(const uint8_t* b, bf16* codes, float* scales) {
    put_codes(both_halves(b + 1), kE2m1Codes, codes);
    *scales = e8m0_half(b[0]);
}

HWY_INLINE void code_int4(const uint8_t* b, bf16* codes, float* scales) {
    const auto [scale, zero] = int4_scale(word_at<uint32_t>(b));
    const __m256i v = _mm256_add_epi8(both_halves(b + 4), _mm256_set1_epi8(static_cast<char>(16 - zero)));
    put_codes(v, kStraight<16>, codes);
    *scales = scale;
}

/// An e4m3 number over 256 is an f16 number, and has few enough bits to be a bf16 number.
HWY_INLINE void code_fp8(const uint8_t* b, bf16* codes, float* scales) {
    const __m512i v = _mm512_cvtepu8_epi16(bytes_at(b + 4));
    const __m512i sign = _mm512_slli_epi16(_mm512_and_si512(v, _mm512_set1_epi16(0x80)), 8);
    const __m512i half = _mm512_or_si512(sign, _mm512_slli_epi16(_mm512_and_si512(v, _mm512_set1_epi16(0x7f)), 7));
    const __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(half));
    const __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(half, 1));
    _mm512_storeu_si512(codes, (__m512i)_mm512_cvtne2ps_pbh(high, low));
    *scales = word_at<float>(b) * 256.0F;
}

HWY_INLINE void code_q2_k(const uint8_t* b, bf16* codes, float* scales, float* offsets) {
    const __m128i s = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), mask = _mm_set1_epi8(15);
    put_scales(_mm512_cvtepu8_epi32(_mm_and_si128(s, mask)), half_at(b + 80), scales);
    put_scales(_mm512_cvtepu8_epi32(_mm_and_si128(_mm_srli_epi16(s, 4), mask)), -half_at(b + 82), offsets);
    for (int g = 0; g < 8; ++g) {
        put_codes(bit_pairs(bytes_at(b + 16 + g / 4 * 32), g % 4 * 2), kStraight<0>, codes + g * 32);
    }
}

HWY_INLINE void code_q3_k(const uint8_t* b, bf16* codes, float* scales) {
    const auto l0 = word_at<uint32_t>(b + 96), l1 = word_at<uint32_t>(b + 100), h = word_at<uint32_t>(b + 104);
    constexpr uint32_t kLow = 0x0f0f0f0f, kHigh = 0x03030303;
    const __m128i s = _mm_set_epi32(static_cast<int>((l1 >> 4 & kLow) | (h >> 6 & kHigh) << 4),
                                    static_cast<int>((l0 >> 4 & kLow) | (h >> 4 & kHigh) << 4),
                                    static_cast<int>((l1 & kLow) | (h >> 2 & kHigh) << 4),
                                    static_cast<int>((l0 & kLow) | (h & kHigh) << 4));
    put_scales(_mm512_cvtepi8_epi32(_mm_sub_epi8(s, _mm_set1_epi8(32))), half_at(b + 108), scales);
    const __m256i third = bytes_at(b);
    for (int g = 0; g < 8; ++g) {
        const __mmask32 set = _mm256_test_epi8_mask(third, _mm256_set1_epi8(static_cast<char>(1 << g)));
        const __m256i low = bit_pairs(bytes_at(b + 32 + g / 4 * 32), g % 4 * 2);
        put_codes(_mm256_or_si256(low, _mm256_maskz_set1_epi8(set, 4)), kStraight<4>, codes + g * 32);
    }
}

/// Q4_K, Q5_K.
template <bool kFive>
HWY_INLINE void code_k(const uint8_t* b, bf16* codes, float* scales, float* offsets) {
    const auto u0 = word_at<uint32_t>(b + 4), u1 = word_at<uint32_t>(b + 8), u2 = word_at<uint32_t>(b + 12);
    constexpr uint32_t kSix = 0x3f3f3f3f, kLow = 0x0f0f0f0f, kHigh = 0x03030303;
    const uint64_t scale = (u0 & kSix) | static_cast<uint64_t>((u2 & kLow) | (u0 >> 6 & kHigh) << 4) << 32;
    const uint64_t min = (u1 & kSix) | static_cast<uint64_t>((u2 >> 4 & kLow) | (u1 >> 6 & kHigh) << 4) << 32;
    put_scales(scale, half_at(b), scales);
    // A minimum is for two runs of 16: each of the eight is written twice.
    const __m512i mins = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(static_cast<int64_t>(min)));
    put_scales(_mm512_or_si512(mins, _mm512_slli_epi64(mins, 32)), -half_at(b + 2), offsets);
    const __m256i fifth = bytes_at(b + 16);  // kFive only
    const uint8_t* q = b + 16 + (kFive ? 32 : 0);
    for (int g = 0; g < 8; ++g) {
        const __m256i both = bytes_at(q + g / 2 * 32);
        __m256i v = g % 2 == 0 ? low_nibbles(both) : high_nibbles(both);
        if constexpr (kFive) {
            const __mmask32 set = _mm256_test_epi8_mask(fifth, _mm256_set1_epi8(static_cast<char>(1 << g)));
            v = _mm256_or_si256(v, _mm256_maskz_set1_epi8(set, 16));
        }
        put_codes(v, kStraight<0>, codes + g * 32);
    }
}

HWY_INLINE void code_q6_k(const uint8_t* b, bf16* codes, float* scales) {
    const __m128i s = _mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 192));
    put_scales(_mm512_cvtepi8_epi32(s), half_at(b + 208), scales);
    const __m512i first = _mm512_load_si512(kStraight<32, 64>.data());
    const __m512i second = _mm512_load_si512(kStraight<32, 64>.data() + 32);
    for (int g = 0; g < 8; ++g) {
        const int half = g / 4, run = g % 4;
        const __m256i both = bytes_at(b + half * 64 + run % 2 * 32);
        const __m256i low = run < 2 ? low_nibbles(both) : high_nibbles(both);
        const __m256i high = _mm256_slli_epi16(bit_pairs(bytes_at(b + 128 + half * 32), 2 * run), 4);
        const __m512i index = _mm512_cvtepu8_epi16(_mm256_or_si256(low, high));
        _mm512_storeu_si512(codes + g * 32, _mm512_permutex2var_epi16(first, index, second));
    }
}

HWY_INLINE void code_iq4_xs(const uint8_t* b, bf16* codes, float* scales) {
    const float d = half_at(b);
    const uint32_t high = word_at<uint16_t>(b + 2), low = word_at<uint32_t>(b + 4);
    for (int g = 0; g < 8; ++g) {
        const int scale = static_cast<int>((low >> (4 * g) & 15) | (high >> (2 * g) & 3) << 4) - 32;
        scales[g] = d * static_cast<float>(scale);
        put_codes(both_halves(b + 8 + g * 16), kUnevenCodes, codes + g * 32);
    }
}

/// Decodes one block.
template <StoredType kType>
HWY_INLINE void code_block(const uint8_t* b, bf16* codes, float* scales, float* offsets) {
    using enum StoredType;
    if constexpr (kType == kQ4_0) code_small<false, false>(b, codes, scales, offsets);
    if constexpr (kType == kQ4_1) code_small<false, true>(b, codes, scales, offsets);
    if constexpr (kType == kQ5_0) code_small<true, false>(b, codes, scales, offsets);
    if constexpr (kType == kQ5_1) code_small<true, true>(b, codes, scales, offsets);
    if constexpr (kType == kQ8_0) code_q8_0(b, codes, scales);
    if constexpr (kType == kIQ4_NL) code_iq4_nl(b, codes, scales);
    if constexpr (kType == kMXFP4) code_mxfp4(b, codes, scales);
    if constexpr (kType == kQ2_K) code_q2_k(b, codes, scales, offsets);
    if constexpr (kType == kQ3_K) code_q3_k(b, codes, scales);
    if constexpr (kType == kQ4_K) code_k<false>(b, codes, scales, offsets);
    if constexpr (kType == kQ5_K) code_k<true>(b, codes, scales, offsets);
    if constexpr (kType == kQ6_K) code_q6_k(b, codes, scales);
    if constexpr (kType == kIQ4_XS) code_iq4_xs(b, codes, scales);
    if constexpr (kType == kInt4) code_int4(b, codes, scales);
    if constexpr (kType == kFP8) code_fp8(b, codes, scales);
}

/// out[r][j] = w[j] . x[r], r < R, j < W. A product has one accumulator that runs over groups of 32 elements: its bits
/// do not depend on W and R. `sums`: of each row of x over 16 elements.
template <int W, int R, bool kPer16, bool kOffset>
HWY_INLINE void coded_tile(const CodedRow* w, const bf16* x, int64_t x_stride, const float* sums, int64_t k, float* out,
                           int64_t out_stride) {
    static_assert(W == 1 || W == 4);
    const F d;
    const Vf zero = hn::Zero(d);
    Vf acc[R][W];
    for (int r = 0; r < R; ++r)
        for (int j = 0; j < W; ++j) acc[r][j] = zero;
    const auto of_group = [&](const float* values, int64_t g) HWY_ATTR {
        if constexpr (!kPer16) return hn::Set(d, values[g]);
        return Vf{_mm512_mask_broadcastss_ps(hn::Set(d, values[2 * g]).raw, 0xff00, _mm_load_ss(values + 2 * g + 1))};
    };
    for (int64_t g = 0; g < k / 32; ++g) {
        __m512i xs[R];
        for (int r = 0; r < R; ++r) xs[r] = load_pairs(x + r * x_stride + g * 32);
        for (int j = 0; j < W; ++j) {
            const __m512i codes = load_pairs(w[j].codes + g * 32);
            const Vf scale = of_group(w[j].scales, g);
            for (int r = 0; r < R; ++r) acc[r][j] = hn::MulAdd(add_pairs(zero, codes, xs[r]), scale, acc[r][j]);
        }
    }
    for (int64_t i = 0; kOffset && i < coded_sums(k); i += kLanes) {
        for (int j = 0; j < W; ++j) {
            const Vf offset = hn::LoadU(d, w[j].offsets + i);
            for (int r = 0; r < R; ++r) {
                acc[r][j] = hn::MulAdd(hn::LoadU(d, sums + r * coded_sums(k) + i), offset, acc[r][j]);
            }
        }
    }
    for (int r = 0; r < R; ++r) {
        if constexpr (W == 1) {
            out[r * out_stride] = sum_lanes(acc[r][0]);
        } else {
            hn::StoreU(sum4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]), F4(), out + r * out_stride);
        }
    }
}

/// Multiplies all rows of x, in groups of at most four, by W decoded weight rows.
template <int W, bool kPer16, bool kOffset>
HWY_NOINLINE void coded_groups(const MatmulArgs& a, const float* sums, const CodedRow* w, float* out) {
    const int64_t groups = (a.rows + 3) / 4;
    for (int64_t g = 0; g < groups; ++g) {
        const Part part = part_of(a.rows, static_cast<int>(g), static_cast<int>(groups));
        const bf16* x = static_cast<const bf16*>(a.x) + part.begin * a.x_stride;
        const float* sums_of = sums + part.begin * coded_sums(a.k);
        float* to = out + part.begin * a.out_stride;
        switch (part.end - part.begin) {
            case 1:
                coded_tile<W, 1, kPer16, kOffset>(w, x, a.x_stride, sums_of, a.k, to, a.out_stride);
                break;
            case 2:
                coded_tile<W, 2, kPer16, kOffset>(w, x, a.x_stride, sums_of, a.k, to, a.out_stride);
                break;
            case 3:
                coded_tile<W, 3, kPer16, kOffset>(w, x, a.x_stride, sums_of, a.k, to, a.out_stride);
                break;
            default:
                coded_tile<W, 4, kPer16, kOffset>(w, x, a.x_stride, sums_of, a.k, to, a.out_stride);
                break;
        }
    }
}

/// Decodes W weight rows, n and those after it, and multiplies by them. `scratch`: floats for 4 rows. (A lambda would
/// be compiled without the instructions of pairs, and would call these functions.)
template <StoredType kType, int W>
HWY_INLINE void multiply_coded(const MatmulArgs& a, const float* sums, int64_t stride, int64_t n, float* scratch) {
    constexpr BlockLayout kLayout = layout_of(kType);
    constexpr int64_t kScales = kLayout.elements / (scales_16(kType) ? 16 : 32);  // of a block
    constexpr int64_t kAhead = 4096;  // bytes; without it, waiting for memory took a third of the time (Zen 5)
    const int64_t k = a.k;
    CodedRow w[W];
    for (int j = 0; j < W; ++j) {
        float* mine = scratch + j * coded_floats(k);
        w[j] = {reinterpret_cast<bf16*>(mine), mine + k / 2, mine + k / 2 + coded_sums(k)};
        const uint8_t* b = static_cast<const uint8_t*>(a.w) + (n + j) * stride;
        bf16* codes = w[j].codes;
        float *scales = w[j].scales, *offsets = w[j].offsets;
        for (bf16* const end = codes + k; codes < end; codes += kLayout.elements, b += kLayout.bytes) {
            for (size_t line = 0; line < kLayout.bytes; line += 64) prefetch(b + kAhead + line);
            code_block<kType>(b, codes, scales, offsets);
            scales += kScales;
            offsets += kLayout.elements / 16;
        }
        if constexpr (has_offsets(kType)) std::fill(offsets, w[j].offsets + coded_sums(k), 0.0F);
    }
    coded_groups<W, scales_16(kType), has_offsets(kType)>(a, sums, w, a.out + n);
}

/// Multiplies by weight rows [begin, end).
template <StoredType kType>
HWY_NOINLINE void multiply_coded_rows(const MatmulArgs& a, const float* sums, int64_t stride, int64_t begin,
                                      int64_t end, float* scratch) {
    int64_t n = begin;
    for (; n + 4 <= end; n += 4) multiply_coded<kType, 4>(a, sums, stride, n, scratch);
    for (; n < end; ++n) multiply_coded<kType, 1>(a, sums, stride, n, scratch);
}

/// sums[r, i] = the sum of elements [16 i, 16 i + 16) of row r of x, then zeros up to coded_sums(k).
inline void sum_coded_rows(const bf16* x, int64_t rows, int64_t x_stride, int64_t k, float* sums) {
    const F d;
    for (int64_t r = 0; r < rows; ++r, x += x_stride, sums += coded_sums(k)) {
        for (int64_t i = 0; i < k / 16; ++i) sums[i] = sum_lanes(load(d, x + i * 16));
        std::fill(sums + k / 16, sums + coded_sums(k), 0.0F);
    }
}

inline void multiply_coded_rows(StoredType type, const MatmulArgs& a, const float* sums, int64_t stride, int64_t begin,
                                int64_t end, float* scratch) {
    using enum StoredType;
    switch (type) {
        case kQ4_0:
            return multiply_coded_rows<kQ4_0>(a, sums, stride, begin, end, scratch);
        case kQ4_1:
            return multiply_coded_rows<kQ4_1>(a, sums, stride, begin, end, scratch);
        case kQ5_0:
            return multiply_coded_rows<kQ5_0>(a, sums, stride, begin, end, scratch);
        case kQ5_1:
            return multiply_coded_rows<kQ5_1>(a, sums, stride, begin, end, scratch);
        case kQ8_0:
            return multiply_coded_rows<kQ8_0>(a, sums, stride, begin, end, scratch);
        case kIQ4_NL:
            return multiply_coded_rows<kIQ4_NL>(a, sums, stride, begin, end, scratch);
        case kMXFP4:
            return multiply_coded_rows<kMXFP4>(a, sums, stride, begin, end, scratch);
        case kQ2_K:
            return multiply_coded_rows<kQ2_K>(a, sums, stride, begin, end, scratch);
        case kQ3_K:
            return multiply_coded_rows<kQ3_K>(a, sums, stride, begin, end, scratch);
        case kQ4_K:
            return multiply_coded_rows<kQ4_K>(a, sums, stride, begin, end, scratch);
        case kQ5_K:
            return multiply_coded_rows<kQ5_K>(a, sums, stride, begin, end, scratch);
        case kQ6_K:
            return multiply_coded_rows<kQ6_K>(a, sums, stride, begin, end, scratch);
        case kIQ4_XS:
            return multiply_coded_rows<kIQ4_XS>(a, sums, stride, begin, end, scratch);
        case kInt4:
            return multiply_coded_rows<kInt4>(a, sums, stride, begin, end, scratch);
        case kFP8:
            return multiply_coded_rows<kFP8>(a, sums, stride, begin, end, scratch);
        case kF32:
        case kF16:
        case kBF16:
            return;  // callers have checked that the type has blocks
    }
}

TRIREME_AFTER_PAIRS
#endif  // TRIREME_PAIRS

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_CODED_INL_H
