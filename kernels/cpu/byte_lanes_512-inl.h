/// Sixteen words or floats in one AVX-512 register, for tile_codes-inl.h and byte_tiles-inl.h. byte_lanes_256-inl.h has
/// the same functions for AVX2. Included between the target's attributes, in an unnamed namespace.

// Functions, not lambdas: a lambda is compiled without the attributes of the file that includes this one.
#define TRIREME_INLINE inline __attribute__((always_inline))

using V = __m512i;
using Vf = __m512;

TRIREME_INLINE V load(const std::byte* p) {
    return _mm512_loadu_si512(p);
}
TRIREME_INLINE V set(int32_t x) {
    return _mm512_set1_epi32(x);
}
TRIREME_INLINE V set_bytes(int x) {
    return _mm512_set1_epi8(static_cast<char>(x));
}
TRIREME_INLINE V both(V a, V b) {
    return _mm512_and_si512(a, b);
}
TRIREME_INLINE V either(V a, V b) {
    return _mm512_or_si512(a, b);
}
TRIREME_INLINE V flipped(V a, V b) {
    return _mm512_xor_si512(a, b);
}
TRIREME_INLINE V sum(V a, V b) {
    return _mm512_add_epi32(a, b);
}
TRIREME_INLINE V difference(V a, V b) {
    return _mm512_sub_epi32(a, b);
}
TRIREME_INLINE V product(V a, V b) {
    return _mm512_mullo_epi32(a, b);
}
TRIREME_INLINE V right(V v, int bits) {
    return _mm512_srlv_epi32(v, set(bits));
}
TRIREME_INLINE V left(V v, int bits) {
    return _mm512_sllv_epi32(v, set(bits));
}
/// The byte at this place of each word, with its sign.
TRIREME_INLINE V signed_byte(V v, int place) {
    return _mm512_srai_epi32(left(v, 24 - place * 8), 24);
}
/// table[nibble] for every byte.
TRIREME_INLINE V look_up(const uint8_t (&table)[16], V nibbles) {
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table))),
                               nibbles);
}
/// v + 16 in every byte whose bit is set: those of `which`, in byte `place` of the word of `bits`.
TRIREME_INLINE V with_fifth(V v, V bits, int place, int32_t which) {
    const V from = _mm512_add_epi8(_mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c)),
                                   set_bytes(place));
    const __mmask64 fifth = _mm512_test_epi8_mask(_mm512_shuffle_epi8(bits, from), set(which));
    return _mm512_mask_add_epi8(v, fifth, v, set_bytes(16));
}

TRIREME_INLINE Vf zero() {
    return _mm512_setzero_ps();
}
TRIREME_INLINE Vf all(float x) {
    return _mm512_set1_ps(x);
}
TRIREME_INLINE Vf number(V words) {
    return _mm512_cvtepi32_ps(words);
}
TRIREME_INLINE Vf product(Vf a, Vf b) {
    return _mm512_mul_ps(a, b);
}
/// -a b.
TRIREME_INLINE Vf negative(Vf a, Vf b) {
    return _mm512_sub_ps(zero(), _mm512_mul_ps(a, b));
}
/// a b + c, rounded once.
TRIREME_INLINE Vf multiply_add(Vf a, Vf b, Vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
TRIREME_INLINE Vf float_bits(V words) {
    return _mm512_castsi512_ps(words);
}
/// Sixteen f16 numbers.
TRIREME_INLINE Vf halves(const std::byte* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
/// The lower or the upper f16 number of every word.
TRIREME_INLINE Vf half_of(V words, int upper) {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(right(words, 16 * upper)));
}
/// Sixteen e8m0 numbers, halved (e8m0_half).
TRIREME_INLINE Vf e8m0_halves(const std::byte* p) {
    const V e = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const V normal = _mm512_slli_epi32(difference(e, set(1)), 23);
    const __mmask16 small = _mm512_cmplt_epu32_mask(e, set(2));
    return float_bits(_mm512_mask_sllv_epi32(normal, small, set(0x00200000), e));
}
/// Stores numbers [from, to).
TRIREME_INLINE void store(Vf v, int from, int to, float* out) {
    const auto mask = static_cast<__mmask16>((1u << to) - (1u << from));
    const Vf sums = from == 0 ? v : _mm512_maskz_compress_ps(mask, v);
    _mm512_mask_storeu_ps(out, static_cast<__mmask16>(mask >> from), sums);
}

/// Adds the products of four codes, unsigned bytes, with four signed ones.
TRIREME_INLINE V add_dots(V sums, V codes, V x) {
    return _mm512_dpbusd_epi32(sums, codes, x);
}

/// The largest of 32 numbers without their signs, as bits: these are ordered like the numbers, and those of infinities
/// and NaNs are the largest.
TRIREME_INLINE int32_t largest_size(const float* v) {
    const V sign_off = set(0x7fffffff);
    const V a = both(_mm512_loadu_si512(v), sign_off), b = both(_mm512_loadu_si512(v + 16), sign_off);
    return _mm512_reduce_max_epi32(_mm512_max_epi32(a, b));
}

/// Writes 32 whole numbers as 32 high bytes and 32 low ones.
TRIREME_INLINE void pack_codes(const int32_t (&whole)[32], bool two, std::byte* out) {
    for (int h = 0; h < 2; ++h) {
        const V v = _mm512_loadu_si512(whole + 16 * h);
        const V high = two ? _mm512_srai_epi32(sum(v, set(128)), 8) : v;
        const V low = two ? difference(v, _mm512_slli_epi32(high, 8)) : _mm512_setzero_si512();
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + h * 16), _mm512_cvtepi32_epi8(high));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 32 + h * 16), _mm512_cvtepi32_epi8(low));
    }
}

constexpr int kMostRows = 8;  // of x at a time: their sums fit the registers
