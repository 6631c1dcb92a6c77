/// Dot products of 16-bit numbers (vpmaddwd); the sums are those of byte_sums_vnni-inl.h. Included after
/// byte_lanes_256-inl.h.

constexpr bool kTwoProducts = false;  // a number of 16 bits is one operand

/// Sums of products of four codes with four activations of 16 bits.
template <bool kTwo>
struct Dots {
    V sums;
};
template <bool kTwo>
TRIREME_INLINE void clear(Dots<kTwo>& dots) {
    dots.sums = {_mm256_setzero_si256(), _mm256_setzero_si256()};
}
/// Codes 0 and 2 of each word, and codes 1 and 3, as numbers of 16 bits.
struct Codes {
    V even, odd;
};
TRIREME_INLINE Codes as_operands(V codes) {
    const V low = set(0x00ff00ff);
    return {both(codes, low), both(right(codes, 8), low)};
}
template <bool kTwo>
TRIREME_INLINE void add(Dots<kTwo>& dots, const Codes& codes, const std::byte* block, int j) {
    int32_t even, odd;
    std::memcpy(&even, block + 8 * j, 4);
    std::memcpy(&odd, block + 8 * j + 4, 4);
    const __m256i x = _mm256_set1_epi32(even), y = _mm256_set1_epi32(odd);
    const V first = {_mm256_madd_epi16(codes.even.a, x), _mm256_madd_epi16(codes.even.b, x)};
    const V second = {_mm256_madd_epi16(codes.odd.a, y), _mm256_madd_epi16(codes.odd.b, y)};
    dots.sums = sum(dots.sums, sum(first, second));
}
template <bool kTwo>
TRIREME_INLINE V total(const Dots<kTwo>& dots) {
    return dots.sums;
}

/// Writes 32 whole numbers with 16 bits each; of four, the first and the third precede the others.
TRIREME_INLINE void pack_codes(const int32_t (&whole)[32], bool, std::byte* out) {
    int16_t codes[32];
    for (int i = 0; i < 32; i += 4) {
        codes[i] = static_cast<int16_t>(whole[i]);
        codes[i + 1] = static_cast<int16_t>(whole[i + 2]);
        codes[i + 2] = static_cast<int16_t>(whole[i + 1]);
        codes[i + 3] = static_cast<int16_t>(whole[i + 3]);
    }
    std::memcpy(out, codes, sizeof codes);
}
