/// Transposes rows into the panels that gemm-inl.h multiplies by.
#if defined(TRIREME_KERNELS_CPU_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_PACK_INL_H
#undef TRIREME_KERNELS_CPU_PACK_INL_H
#else
#define TRIREME_KERNELS_CPU_PACK_INL_H
#endif

#include <type_traits>
#include <utility>

#include "kernels/cpu/gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// Memory that will be read soon; it is prefetched in pieces while other data is packed.
struct Upcoming {
    const char* next = nullptr;
    const char* end = nullptr;

    HWY_INLINE void fetch(int64_t bytes) {
        const char* until = next + std::min<int64_t>(bytes, end - next);
        for (; next < until; next += 64) prefetch(next);
    }
};

/// Loads 8 elements from each of Lanes(D) / 8 rows that are 8 rows apart; a row fills a block of 128 bits.
template <class D>
HWY_INLINE hn::Vec<D> gather_blocks(D d, const uint16_t* row, int64_t stride) {
    if constexpr (hn::MaxLanes(D()) == 8) {
        return hn::LoadU(d, row);
    } else {
        const hn::Half<D> half;
        constexpr int64_t kRows = static_cast<int64_t>(hn::MaxLanes(half));
        return hn::Combine(d, gather_blocks(half, row + kRows * stride, stride), gather_blocks(half, row, stride));
    }
}

/// Transposes 2 * kLanes rows of 16-bit elements, 8 columns: to[column * width + row].
HWY_INLINE void transpose_square(const uint16_t* rows, int64_t stride, uint16_t* to, int64_t width) {
    const hn::ScalableTag<uint16_t> d;
    const hn::Repartition<uint32_t, decltype(d)> d32;
    const hn::Repartition<uint64_t, decltype(d)> d64;
    // After each step a block of 128 bits holds 2, 4, 8 rows of 4, 2, 1 of the columns.
    const auto pair = [&](int64_t i) HWY_ATTR {
        const auto a = gather_blocks(d, rows + i * stride, stride),
                   b = gather_blocks(d, rows + (i + 1) * stride, stride);
        return std::pair(hn::BitCast(d32, hn::InterleaveLower(d, a, b)),
                         hn::BitCast(d32, hn::InterleaveUpper(d, a, b)));
    };
    const auto [a0, a1] = pair(0);
    const auto [a2, a3] = pair(2);
    const auto [a4, a5] = pair(4);
    const auto [a6, a7] = pair(6);
    const auto out = [&](int64_t column, auto rows0123, auto rows4567) HWY_ATTR {
        const auto low = hn::BitCast(d64, rows0123), high = hn::BitCast(d64, rows4567);
        hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, low, high)), d, to + column * width);
        hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, low, high)), d, to + (column + 1) * width);
    };
    out(0, hn::InterleaveLower(d32, a0, a2), hn::InterleaveLower(d32, a4, a6));
    out(2, hn::InterleaveUpper(d32, a0, a2), hn::InterleaveUpper(d32, a4, a6));
    out(4, hn::InterleaveLower(d32, a1, a3), hn::InterleaveLower(d32, a5, a7));
    out(6, hn::InterleaveUpper(d32, a1, a3), hn::InterleaveUpper(d32, a5, a7));
}

/// Transposes 4 rows of f32, 4 columns: to[column * width + row].
HWY_INLINE void transpose_square(const float* rows, int64_t stride, float* to, int64_t width) {
    const F4 d;
    const hn::Repartition<double, F4> wide;
    const auto r0 = hn::LoadU(d, rows), r1 = hn::LoadU(d, rows + stride);
    const auto r2 = hn::LoadU(d, rows + 2 * stride), r3 = hn::LoadU(d, rows + 3 * stride);
    const auto low01 = hn::BitCast(wide, hn::InterleaveLower(d, r0, r1));
    const auto low23 = hn::BitCast(wide, hn::InterleaveLower(d, r2, r3));
    const auto high01 = hn::BitCast(wide, hn::InterleaveUpper(d, r0, r1));
    const auto high23 = hn::BitCast(wide, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, low01, low23)), d, to);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, low01, low23)), d, to + width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(wide, high01, high23)), d, to + 2 * width);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(wide, high01, high23)), d, to + 3 * width);
}

/// Packs n rows of k elements, `stride` apart, as panels for multiply_panels: strips of n columns, each [k][width] of
/// T. Columns beyond n repeat the last row; their products are not used.
template <class T>
HWY_INLINE void pack_transposed(const T* rows, int64_t stride, int64_t n, int64_t k, T* panels, int64_t widest,
                                Upcoming ahead) {
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, float>;
    constexpr int64_t kRows = sizeof(T) == 2 ? 2 * kLanes : 4, kColumns = sizeof(T) == 2 ? 8 : 4;
    static_assert(2 * kLanes % kRows == 0, "a strip, a multiple of 2 * kLanes columns, is whole squares");
    for (int64_t at = 0; at < n;) {
        const int64_t width = strip_width(at, n, widest, 2 * kLanes);
        for (int64_t i = 0; i < width; i += kRows) {
            ahead.fetch(kRows * k * static_cast<int64_t>(sizeof(T)));
            const T* from = rows + (at + i) * stride;
            T* to = panels + at * k + i;
            int64_t p = 0;
            if (at + i + kRows <= n) {
                for (; p + kColumns <= k; p += kColumns) {
                    transpose_square(reinterpret_cast<const Bits*>(from + p), stride,
                                     reinterpret_cast<Bits*>(to + p * width), width);
                }
            }
            for (; p < k; ++p) {
                for (int64_t j = 0; j < kRows; ++j) to[p * width + j] = rows[std::min(at + i + j, n - 1) * stride + p];
            }
        }
        at += width;
    }
}

/// Converts the 16 keys of a block (kernels/key_order.h) to rows, `stride` elements apart.
template <class T>
void rows_of_block(const T* block, int64_t dim, T* rows, int64_t stride) {
    // Elements that are kept together are moved as one: a pair of bf16 as if it were an f32.
    constexpr bool kHalves = std::is_same_v<T, f16>;
    using Unit = std::conditional_t<kHalves, uint16_t, float>;
    constexpr int64_t kTogether = static_cast<int64_t>(sizeof(Unit) / sizeof(T));
    constexpr int64_t kTaken = kHalves ? 2 * kLanes : 4, kKeys = kHalves ? 8 : 4;  // transpose_square's
    static_assert(kKeyBlock % kKeys == 0, "a block is whole squares");
    const auto* from = reinterpret_cast<const Unit*>(block);
    const int64_t units = dim / kTogether, row = stride / kTogether;
    auto* to = reinterpret_cast<Unit*>(rows);
    int64_t u = 0;
    for (; u + kTaken <= units; u += kTaken) {
        for (int64_t key = 0; key < kKeyBlock; key += kKeys) {
            transpose_square(from + u * kKeyBlock + key, kKeyBlock, to + key * row + u, row);
        }
    }
    for (; u < units; ++u) {
        for (int64_t key = 0; key < kKeyBlock; ++key) {
            std::memcpy(to + key * row + u, from + u * kKeyBlock + key, sizeof(Unit));
        }
    }
}

/// Reads the keys of a head as rows, in order; q8_0 as f32. `buffer`: 16 rows of `stride` elements.
template <class T>
class KeyRows {
  public:
    using Element = std::conditional_t<std::is_same_v<T, q8_0>, float, T>;

    KeyRows(const T* blocks, int64_t dim, Element* buffer, int64_t stride)
        : blocks_(blocks), dim_(dim), buffer_(buffer), stride_(stride) {}

    /// Valid until the next call.
    const Element* row(int64_t i) {
        if (i / kKeyBlock != held_) {
            held_ = i / kKeyBlock;
            const T* block = blocks_ + held_ * kKeyBlock * row_stride<T>(dim_);
            if constexpr (std::is_same_v<T, q8_0>) {
                HWY_ALIGN float wide[kKeyBlock * kMostQuantised];
                widen_block(block, dim_, wide);
                rows_of_block(wide, dim_, buffer_, stride_);
            } else {
                rows_of_block(block, dim_, buffer_, stride_);
            }
        }
        return buffer_ + i % kKeyBlock * stride_;
    }

  private:
    const T* blocks_;
    int64_t dim_;
    Element* buffer_;
    int64_t stride_, held_ = -1;
};

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_PACK_INL_H
