/// Products of interleaved weights and packed activations, for lanes of either size. byte_dots_512.cc and
/// byte_dots_256.cc include this file between their target's attributes, in an unnamed namespace, after
/// byte_lanes_512-inl.h or byte_lanes_256-inl.h. Both give the same bits: sums of whole numbers are exact, and the f32
/// operations are the same in the same order.

#include "kernels/cpu/tile_codes-inl.h"

/// A packed row of x.
struct ByteRow {
    std::byte* codes;           // [k / 32] of 64 bytes, as pack_codes() writes them
    float* scales;              // [k / 32]
    int32_t *sums, *sums_16;    // [k / 32], [k / 16]
    float *scaled, *scaled_16;  // the sums times the scale

    ByteRow() = default;
    ByteRow(std::byte* row, int64_t k)
        : codes(row),
          scales(reinterpret_cast<float*>(row + k / 32 * 64)),
          sums(reinterpret_cast<int32_t*>(scales + k / 32)),
          sums_16(sums + k / 32),
          scaled(reinterpret_cast<float*>(sums_16 + k / 16)),
          scaled_16(scaled + k / 32) {}
};

/// Rounds 32 numbers to whole ones.
TRIREME_INLINE void pack_block(const float* v, int64_t b, bool two, const ByteRow& out) {
    const float most = two ? 127.0F * 256 : 127.0F;
    const int32_t bits = largest_size(v);
    const bool finite = bits < 0x7f800000;
    float largest;
    std::memcpy(&largest, &bits, sizeof largest);
    // Numbers so small that the inverse is infinite are zeros. A NaN or an infinity makes all products NaN.
    const float inverse = finite && largest > most / std::numeric_limits<float>::max() ? most / largest : 0;
    out.scales[b] = finite ? largest / most : std::numeric_limits<float>::quiet_NaN();
    constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: sums are whole numbers, ties to even
    int32_t whole[32];
    for (int i = 0; i < 32; ++i) {
        whole[i] = inverse == 0 ? 0 : static_cast<int32_t>((v[i] * inverse + kRound) - kRound);
    }
    pack_codes(whole, two, out.codes + b * 64);
    int32_t all = 0;
    for (int h = 0; h < 2; ++h) {
        int32_t of_half = 0;
        for (int i = 0; i < 16; ++i) of_half += whole[16 * h + i];
        out.sums_16[2 * b + h] = of_half;
        out.scaled_16[2 * b + h] = static_cast<float>(of_half) * out.scales[b];
        all += of_half;
    }
    out.sums[b] = all;
    out.scaled[b] = static_cast<float>(all) * out.scales[b];
}

void pack_row(const float* x, int64_t n, int64_t skip, int64_t k, bool two, std::byte* out) {
    const ByteRow row(out, k);
    for (int64_t b = 0; b < k / 32; ++b) {
        const int64_t at = b * 32 - skip;  // of x, which has no elements before 0 and from n on
        const int64_t from = std::clamp<int64_t>(-at, 0, 32), to = std::clamp<int64_t>(n - at, from, 32);
        if (to - from == 32) {
            pack_block(x + at, b, two, row);
            continue;
        }
        float some[32] = {};
        std::memcpy(some + from, x + (at + from), static_cast<size_t>(to - from) * sizeof(float));
        pack_block(some, b, two, row);
    }
}

/// Sixteen products of one tile with each of R rows of x. The order of additions does not depend on R. `fetch`: the
/// weights are not in the cache yet.
template <StoredType kType, int R, bool kTwo>
inline void multiply_tile(const std::byte* tile, const ByteRow* x, int64_t k, bool fetch, Vf (&acc)[R]) {
    constexpr int64_t kElements = layout_of(kType).elements, kBytes = static_cast<int64_t>(layout_of(kType).bytes);
    constexpr int kGroups = by_16(kType) ? 2 : 1, kWords = 8 / kGroups;  // of a cell of 32 elements
    constexpr int64_t kAhead = 4096;  // bytes; blocks are not read in the order of addresses
    for (int r = 0; r < R; ++r) acc[r] = zero();
    for (int64_t first = 0; first < k; first += kElements, tile += kBytes * kInterleaved) {
        const BlockScales s = block_scales<kType>(tile);
#pragma GCC unroll 1  // unrolled, it is no faster, and takes six times as long to compile
        for (int cell = 0; cell < kElements / 32; ++cell) {
            const int64_t at = first / 32 + cell;
            constexpr int64_t kShare = kBytes * kInterleaved / (kElements / 32);  // bytes
            for (int64_t byte = cell * kShare; fetch && byte < (cell + 1) * kShare; byte += 64) {
                _mm_prefetch(reinterpret_cast<const char*>(tile + kAhead + byte), _MM_HINT_T0);
            }
#pragma GCC unroll 2
            for (int half = 0; half < kGroups; ++half) {
                Dots<kTwo> dots[R];
                for (int r = 0; r < R; ++r) clear(dots[r]);
#pragma GCC unroll 8
                for (int j = half * kWords; j < (half + 1) * kWords; ++j) {
                    const Codes codes = as_operands(codes_of<kType>(tile, cell, j));
#pragma GCC unroll 8
                    for (int r = 0; r < R; ++r) add(dots[r], codes, x[r].codes + at * 64, j);
                }
                const GroupScale g = group_scale<kType>(tile, s, cell * kGroups + half);
#pragma GCC unroll 8
                for (int r = 0; r < R; ++r) {
                    V whole = total(dots[r]);
                    const int64_t of = kGroups * at + half;
                    const int32_t codes = kGroups == 2 ? x[r].sums_16[of] : x[r].sums[of];
                    if constexpr (kType == kInt4) whole = difference(whole, product(s.a, set(codes)));
                    if constexpr (zero_of(kType) != 0) whole = difference(whole, set(codes * zero_of(kType)));
                    const Vf value = product(number(whole), all(x[r].scales[at]));
                    acc[r] = multiply_add(value, g.scale, acc[r]);
                    if constexpr (with_offset(kType)) {
                        const float scaled = kGroups == 2 ? x[r].scaled_16[of] : x[r].scaled[of];
                        acc[r] = multiply_add(all(scaled), g.offset, acc[r]);
                    }
                }
            }
        }
    }
}

template <StoredType kType, int R, bool kTwo>
__attribute__((noinline)) void multiply_rows(const ByteProduct& p, int64_t row, int64_t begin, int64_t end) {
    ByteRow x[R];
    for (int r = 0; r < R; ++r) x[r] = ByteRow(p.x + (row + r) * byte_row_bytes(p.k), p.k);
    for (int64_t n = begin / kInterleaved * kInterleaved; n < end; n += kInterleaved) {
        Vf acc[R];
        multiply_tile<kType, R, kTwo>(p.tiles + n * p.stride, x, p.k, /*fetch=*/row == 0, acc);
        const auto from = static_cast<int>(std::max<int64_t>(0, begin - n));
        const auto to = static_cast<int>(std::min(kInterleaved, end - n));
        for (int r = 0; r < R; ++r) store(acc[r], from, to, p.out + (row + r) * p.out_stride + (n + from - p.first));
    }
}

/// All rows of x, most at a time first: weights are decoded once for each run of rows.
template <StoredType kType, bool kTwo>
void multiply_all(const ByteProduct& p, int64_t begin, int64_t end) {
    int64_t row = 0;
    for (; row + kMostRows <= p.rows; row += kMostRows) multiply_rows<kType, kMostRows, kTwo>(p, row, begin, end);
    if (kMostRows > 4 && row + 4 <= p.rows) {
        multiply_rows<kType, 4, kTwo>(p, row, begin, end);
        row += 4;
    }
    if (row + 2 <= p.rows) {
        multiply_rows<kType, 2, kTwo>(p, row, begin, end);
        row += 2;
    }
    if (row < p.rows) multiply_rows<kType, 1, kTwo>(p, row, begin, end);
}

template <StoredType kType>
void multiply_type(const ByteProduct& p, int64_t begin, int64_t end) {
    if constexpr (kTwoProducts) {
        if (p.two) return multiply_all<kType, true>(p, begin, end);
    }
    multiply_all<kType, false>(p, begin, end);
}

void multiply_any(const ByteProduct& p, int64_t begin, int64_t end) {
    switch (p.type) {
        case kQ4_0:
            return multiply_type<kQ4_0>(p, begin, end);
        case kQ4_1:
            return multiply_type<kQ4_1>(p, begin, end);
        case kQ5_0:
            return multiply_type<kQ5_0>(p, begin, end);
        case kQ5_1:
            return multiply_type<kQ5_1>(p, begin, end);
        case kQ8_0:
            return multiply_type<kQ8_0>(p, begin, end);
        case kIQ4_NL:
            return multiply_type<kIQ4_NL>(p, begin, end);
        case kMXFP4:
            return multiply_type<kMXFP4>(p, begin, end);
        case kQ2_K:
            return multiply_type<kQ2_K>(p, begin, end);
        case kQ3_K:
            return multiply_type<kQ3_K>(p, begin, end);
        case kQ4_K:
            return multiply_type<kQ4_K>(p, begin, end);
        case kQ5_K:
            return multiply_type<kQ5_K>(p, begin, end);
        case kQ6_K:
            return multiply_type<kQ6_K>(p, begin, end);
        case kIQ4_XS:
            return multiply_type<kIQ4_XS>(p, begin, end);
        case kInt4:
            return multiply_type<kInt4>(p, begin, end);
        default:
            break;
    }
    fail(Exit::kInternal, "multiply_bytes: {} is not interleaved", name_of(p.type));
}
