/// Dot products of bytes (AVX-512 VNNI, AVX-VNNI). byte_sums_avx2-inl.h has the same functions for AVX2 alone. Included
/// after the lanes, which have add_dots().

constexpr bool kTwoProducts = true;  // a number of 16 bits is two bytes

/// Sums of products of four codes, unsigned bytes, with four activations: of their high bytes and of their low ones.
template <bool kTwo>
struct Dots {
    V high, low;
};
template <bool kTwo>
TRIREME_INLINE void clear(Dots<kTwo>& dots) {
    dots.high = dots.low = set(0);
}
using Codes = V;
TRIREME_INLINE Codes as_operands(V codes) {
    return codes;
}
TRIREME_INLINE V four(const std::byte* p) {
    int32_t x;
    std::memcpy(&x, p, 4);
    return set(x);
}
/// Adds the products with activations [4 j, 4 j + 4) of a packed block.
template <bool kTwo>
TRIREME_INLINE void add(Dots<kTwo>& dots, Codes codes, const std::byte* block, int j) {
    dots.high = add_dots(dots.high, codes, four(block + 4 * j));
    if constexpr (kTwo) dots.low = add_dots(dots.low, codes, four(block + 32 + 4 * j));
}
template <bool kTwo>
TRIREME_INLINE V total(const Dots<kTwo>& dots) {
    if constexpr (kTwo) return sum(left(dots.high, 8), dots.low);
    return dots.high;
}
