#pragma once
/// Products of interleaved weights (kernels/interleaved.h) with dot products of whole numbers: of bytes (AVX-512 VNNI,
/// AVX-VNNI), or of 16 bits (AVX2). All give the same bits.
///
/// Activations are rounded to whole numbers of 16 bits (q16) or 8 bits (q8), with a scale for 32 of them. With
/// VNNI, a number of 16 bits is two bytes, so q16 takes two dot products. Sums over 32 elements, or 16 where scales are
/// for 16, are exact whole numbers; the scales of weights and activations multiply them in f32. q16 rounds to 1/65,024
/// of the largest of 32 elements: 2^-16, where bf16 rounds each element to 2^-9.

#include <cstddef>
#include <cstdint>

#include "kernels/weight_matrix.h"
#include "runtime/tensor.h"

namespace trireme {

/// The dot products that this process uses, by default the best of the CPU's.
enum class ByteDots : uint8_t { kNone, kAvx2, kAvxVnni, kVnni };
ByteDots byte_dots();
/// Limits them, for the whole process: tests compare all.
void limit_byte_dots(ByteDots most);

/// Bytes of a row of x as products take it: two bytes of each element in the order of the dot products, scales, and
/// sums over 32 and 16 elements. k: a multiple of 32.
constexpr int64_t byte_row_bytes(int64_t k) {
    return (k / 32 * (64 + 4 + 2 * (4 + 8)) + 63) / 64 * 64;
}
/// Rounds a row of x after `skip` zeros; k: elements of the row with these and with zeros after the last one.
void pack_bytes(const float* x, int64_t n, int64_t skip, int64_t k, bool two, std::byte* out);

/// out[r][i] = x[r] . w[first + i] for rows [begin, end) of w, in the numbering of its tiles. `x`: packed rows.
struct ByteProduct {
    std::byte* x;     // only read
    int64_t rows, k;  // of x; elements of a row, whole blocks of w
    StoredType type;
    const std::byte* tiles;
    int64_t stride;  // bytes of a row of w
    bool two;        // q16, not q8
    float* out;      // of row `first` of the tiles' numbering
    int64_t first, out_stride;
};
void multiply_bytes(const ByteProduct& p, int64_t begin, int64_t end);

/// The functions for one kind of dot products.
struct ByteProducts {
    void (*pack)(const float* x, int64_t n, int64_t skip, int64_t k, bool two, std::byte* out);
    void (*multiply)(const ByteProduct& p, int64_t begin, int64_t end);
};
const ByteProducts& byte_products_512();  // AVX-512 VNNI
const ByteProducts& byte_products_avx_vnni();
const ByteProducts& byte_products_256();  // AVX2

}  // namespace trireme
