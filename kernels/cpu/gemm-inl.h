/// Matrix multiply of attention and of prefill's matmul.
#if defined(TRIREME_KERNELS_CPU_GEMM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_GEMM_INL_H
#undef TRIREME_KERNELS_CPU_GEMM_INL_H
#else
#define TRIREME_KERNELS_CPU_GEMM_INL_H
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/quantised-inl.h"
#include "kernels/key_order.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

// A register tile has 12 accumulators of AVX2's 16 registers: 6 rows by 2 vectors with many rows, 3 by 4 with 3 rows or
// fewer; AVX-512 has 32 registers and takes 6 by 4. Strips of b are 4, 2 or 1 vectors wide. 16-bit elements are widened
// as they are loaded. This costs no time next to the multiplications (97 % of the FMA peak on Zen 3 at k = 256), and a
// strip takes half the cache.
inline constexpr int64_t kWide = 4 * kLanes;
inline constexpr int64_t kTall = (HWY_TARGET <= HWY_AVX3 ? 4 : 2) * kLanes;
static_assert(kKeyBlock % kLanes == 0, "a vector's keys are in one block");

/// Width of the strip that begins at column `at` of n, at most `widest`; the last one may reach beyond n, to a multiple
/// of `least`: kLanes, or 2 * kLanes in transposed panels.
HWY_INLINE int64_t strip_width(int64_t at, int64_t n, int64_t widest, int64_t least) {
    const int64_t left = n - at;
    return widest == 4 * kLanes && left >= 4 * kLanes ? 4 * kLanes
                                                      : std::max(left >= 2 * kLanes ? 2 * kLanes : kLanes, least);
}

/// Scales of the vectors of a step; none for plain elements.
struct NoScales {};

/// k rows of b, `stride` elements apart; with 16-bit elements the line `fetch` bytes after each row is prefetched.
template <class T>
struct Strip {
    static constexpr int64_t kRows = 1;  // rows taken at a time

    const T* at;
    int64_t stride, k;
    ptrdiff_t fetch = 0;

    int64_t step() const { return stride; }
    /// The columns from `first` on.
    Strip from(int64_t first) const { return {at + first, stride, k, fetch}; }
    template <int NV>
    HWY_INLINE void fetch_beside(const T* b) const {
        if (sizeof(T) == 2) prefetch(reinterpret_cast<const char*>(b) + fetch);
    }
    template <int NV>
    HWY_INLINE NoScales scales(F /*d*/, const T* /*b*/) const {
        return {};
    }
    /// Vector j of row `row` of those at b, with the step's scales.
    HWY_INLINE Vf vector(F d, const T* b, int64_t /*row*/, int64_t j, const NoScales& /*scales*/) const {
        return load(d, b + j * kLanes);
    }
};

/// Columns of q8_0 rows from `column` on. Rows have every column that is read.
template <>
struct Strip<q8_0> {
    static constexpr int64_t kRows = 1;

    const q8_0* at;
    int64_t stride, k;
    ptrdiff_t fetch = 0;
    int64_t dim = 0, column = 0;

    int64_t step() const { return stride; }
    Strip from(int64_t first) const { return {at + first, stride, k, fetch, dim, column + first}; }
    template <int NV>
    HWY_INLINE void fetch_beside(const q8_0* b) const {
        prefetch(reinterpret_cast<const char*>(b) + fetch);
    }
    /// A strip of 32 columns or more begins with a block of them; a narrower one lies in a block.
    template <int NV>
    HWY_INLINE auto scales(F d, const q8_0* b) const {
        struct Scales {
            Vf of[(NV * kLanes + kQuantBlock - 1) / kQuantBlock];
        } all;
        const char* first = reinterpret_cast<const char*>(b) - column + dim + column / kQuantBlock * 2;
        for (int64_t i = 0; i < static_cast<int64_t>(std::size(all.of)); ++i) all.of[i] = scale_at(d, first + 2 * i);
        return all;
    }
    template <class Scales>
    HWY_INLINE Vf vector(F d, const q8_0* b, int64_t /*row*/, int64_t j, const Scales& scales) const {
        return hn::Mul(codes_at(d, reinterpret_cast<const char*>(b) + j * kLanes), scales.of[j * kLanes / kQuantBlock]);
    }
};

/// A strip of keys in blocks (kernels/key_order.h): a row is one element of all keys. If `ahead` is not null, memory
/// from there on is prefetched.
template <class T>
struct KeyStrip {
    static constexpr int64_t kRows = std::is_same_v<T, bf16> ? 2 : 1;

    const T* at;
    int64_t block, k;  // elements of a block; of a head
    const char* ahead;

    int64_t step() const { return kKeyBlock * kRows; }
    template <int NV>
    HWY_INLINE void fetch_beside(const T* b) const {
        if (ahead == nullptr) return;
        constexpr int64_t kBytes = NV * kLanes * kRows * static_cast<int64_t>(sizeof(T));
        const char* next = ahead + (b - at) / step() * kBytes;
        for (int64_t i = 0; i < kBytes; i += 64) prefetch(next + i);
    }
    template <int NV>
    HWY_INLINE NoScales scales(F /*d*/, const T* /*b*/) const {
        return {};
    }
    HWY_INLINE Vf vector(F d, const T* b, int64_t row, int64_t j, const NoScales& /*scales*/) const {
        const T* p = b + j * kLanes / kKeyBlock * block + j * kLanes % kKeyBlock * kRows;
        if constexpr (kRows == 1) {
            return load(d, p);
        } else {  // the first element of a pair is the lower half
            const auto pairs = hn::LoadU(U(), reinterpret_cast<const uint32_t*>(p));
            return hn::BitCast(d, row == 0 ? hn::ShiftLeft<16>(pairs) : hn::And(pairs, hn::Set(U(), 0xffff0000u)));
        }
    }
};

/// c[i][j] (+)= sum_p a[i][p] b[p][j] for MR rows and NV vectors, p in order: a result's bits do not depend on MR, NV.
template <int MR, int NV, bool kAdd, class B>
HWY_INLINE void multiply_tile(const float* a, int64_t lda, const B& strip, float* c, int64_t ldc) {
    static_assert(MR * NV <= (HWY_TARGET <= HWY_AVX3 ? 24 : 12), "accumulators must fit the registers");
    const F d;
    Vf acc[MR][NV];
    for (int i = 0; i < MR; ++i) {
        for (int j = 0; j < NV; ++j) acc[i][j] = kAdd ? hn::LoadU(d, c + i * ldc + j * kLanes) : hn::Zero(d);
    }
    const float* ai[MR];
    for (int i = 0; i < MR; ++i) ai[i] = a + i * lda;
    const auto* b = strip.at;
    for (int64_t first = 0; first < strip.k; first += B::kRows, b += strip.step()) {
        strip.template fetch_beside<NV>(b);
        const auto scales = strip.template scales<NV>(d, b);
        for (int64_t row = 0; row < B::kRows; ++row) {
            const int64_t p = first + row;
            if constexpr (MR > NV) {  // keep the smaller side in registers
                Vf bj[NV];
                for (int j = 0; j < NV; ++j) bj[j] = strip.vector(d, b, row, j, scales);
                for (int i = 0; i < MR; ++i) {
                    const Vf x = hn::Set(d, ai[i][p]);
                    for (int j = 0; j < NV; ++j) acc[i][j] = hn::MulAdd(x, bj[j], acc[i][j]);
                }
            } else {
                Vf x[MR];
                for (int i = 0; i < MR; ++i) x[i] = hn::Set(d, ai[i][p]);
                for (int j = 0; j < NV; ++j) {
                    const Vf bj = strip.vector(d, b, row, j, scales);
                    for (int i = 0; i < MR; ++i) acc[i][j] = hn::MulAdd(x[i], bj, acc[i][j]);
                }
            }
        }
    }
    for (int i = 0; i < MR; ++i) {
        for (int j = 0; j < NV; ++j) hn::StoreU(acc[i][j], d, c + i * ldc + j * kLanes);
    }
}

template <int NV, bool kAdd, class B>
HWY_INLINE void multiply_rows(const float* a, int64_t lda, int64_t rows, const B& b, float* c, int64_t ldc) {
    constexpr int kRows = NV * kLanes <= kTall ? 6 : 3;
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows) multiply_tile<kRows, NV, kAdd>(a + r * lda, lda, b, c + r * ldc, ldc);
    if (kRows > 3 && r + 3 <= rows) {
        multiply_tile<3, NV, kAdd>(a + r * lda, lda, b, c + r * ldc, ldc);
        r += 3;
    }
    if (r + 2 <= rows) {
        multiply_tile<2, NV, kAdd>(a + r * lda, lda, b, c + r * ldc, ldc);
        r += 2;
    }
    if (r < rows) multiply_tile<1, NV, kAdd>(a + r * lda, lda, b, c + r * ldc, ldc);
}

/// c [rows, width] (+)= a [rows, k] times one strip.
template <bool kAdd, class B>
HWY_NOINLINE void multiply_strip(const float* a, int64_t lda, int64_t rows, const B& b, int64_t width, float* c,
                                 int64_t ldc) {
    if (width == 4 * kLanes) return multiply_rows<4, kAdd>(a, lda, rows, b, c, ldc);
    if (width == 2 * kLanes) return multiply_rows<2, kAdd>(a, lda, rows, b, c, ldc);
    multiply_rows<1, kAdd>(a, lda, rows, b, c, ldc);
}

/// c [rows, n] (+)= a [rows, k] b [k, n]. Reads and writes whole vectors: up to kLanes - 1 columns beyond n.
template <bool kAdd, class T>
HWY_INLINE void multiply(const float* a, int64_t lda, int64_t rows, const Strip<T>& b, float* c, int64_t ldc, int64_t n,
                         int64_t widest) {
    for (int64_t at = 0; at < n;) {
        const int64_t width = strip_width(at, n, widest, kLanes);
        multiply_strip<kAdd>(a, lda, rows, b.from(at), width, c + at, ldc);
        at += width;
    }
}

/// Like multiply, with b transposed by pack_transposed: strip after strip, each contiguous; up to 2 * kLanes - 1
/// columns beyond n. If `ahead` is not null, the panels' number of bytes is prefetched from there.
template <bool kAdd, class T>
HWY_INLINE void multiply_panels(const float* a, int64_t lda, int64_t rows, const T* panels, int64_t k, float* c,
                                int64_t ldc, int64_t n, int64_t widest, const char* ahead = nullptr) {
    const ptrdiff_t fetch = ahead ? ahead - reinterpret_cast<const char*>(panels) : 0;
    for (int64_t at = 0; at < n;) {
        const int64_t width = strip_width(at, n, widest, 2 * kLanes);
        multiply_strip<kAdd>(a, lda, rows, Strip<T>{panels + at * k, width, k, fetch}, width, c + at, ldc);
        at += width;
    }
}

/// c [rows, n] = a [rows, dim] times the first n of these keys in blocks. Writes whole vectors. If `ahead` is not null,
/// the keys' number of bytes is prefetched from there.
template <class T>
HWY_INLINE void multiply_keys(const float* a, int64_t lda, int64_t rows, const T* keys, int64_t n, int64_t dim,
                              float* c, int64_t ldc, int64_t widest, const char* ahead = nullptr) {
    for (int64_t at = 0; at < n;) {
        const int64_t width = strip_width(at, n, widest, kLanes);
        const int64_t place = at / kKeyBlock * kKeyBlock * dim + at % kKeyBlock * KeyStrip<T>::kRows;
        const char* next = ahead ? ahead + at * dim * static_cast<int64_t>(sizeof(T)) : nullptr;
        multiply_strip<false>(a, lda, rows, KeyStrip<T>{keys + place, kKeyBlock * dim, dim, next}, width, c + at, ldc);
        at += width;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_GEMM_INL_H
