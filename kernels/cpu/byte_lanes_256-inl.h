/// The functions of byte_lanes_512-inl.h for AVX2: sixteen words or floats in two registers. Included between the
/// target's attributes, in an unnamed namespace.

#define TRIREME_INLINE inline __attribute__((always_inline))

struct V {
    __m256i a, b;
};
struct Vf {
    __m256 a, b;
};

TRIREME_INLINE V load(const std::byte* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
TRIREME_INLINE V set(int32_t x) {
    return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
TRIREME_INLINE V set_bytes(int x) {
    return {_mm256_set1_epi8(static_cast<char>(x)), _mm256_set1_epi8(static_cast<char>(x))};
}
TRIREME_INLINE V both(V x, V y) {
    return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
}
TRIREME_INLINE V either(V x, V y) {
    return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
}
TRIREME_INLINE V flipped(V x, V y) {
    return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}
TRIREME_INLINE V sum(V x, V y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
}
TRIREME_INLINE V difference(V x, V y) {
    return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
}
TRIREME_INLINE V product(V x, V y) {
    return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)};
}
TRIREME_INLINE V right(V v, int bits) {
    return {_mm256_srlv_epi32(v.a, _mm256_set1_epi32(bits)), _mm256_srlv_epi32(v.b, _mm256_set1_epi32(bits))};
}
TRIREME_INLINE V left(V v, int bits) {
    return {_mm256_sllv_epi32(v.a, _mm256_set1_epi32(bits)), _mm256_sllv_epi32(v.b, _mm256_set1_epi32(bits))};
}
TRIREME_INLINE V signed_byte(V v, int place) {
    const V up = left(v, 24 - place * 8);
    return {_mm256_srai_epi32(up.a, 24), _mm256_srai_epi32(up.b, 24)};
}
TRIREME_INLINE V look_up(const uint8_t (&table)[16], V nibbles) {
    const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return {_mm256_shuffle_epi8(t, nibbles.a), _mm256_shuffle_epi8(t, nibbles.b)};
}
TRIREME_INLINE V with_fifth(V v, V bits, int place, int32_t which) {
    const __m256i from =
        _mm256_add_epi8(_mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c)),
                        _mm256_set1_epi8(static_cast<char>(place)));
    const V mask = set(which), spread = {_mm256_shuffle_epi8(bits.a, from), _mm256_shuffle_epi8(bits.b, from)};
    const V found = both(spread, mask);
    const V fifth = {_mm256_cmpeq_epi8(found.a, mask.a), _mm256_cmpeq_epi8(found.b, mask.b)};
    return either(v, both(fifth, set_bytes(16)));
}

TRIREME_INLINE Vf zero() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
TRIREME_INLINE Vf all(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
TRIREME_INLINE Vf number(V words) {
    return {_mm256_cvtepi32_ps(words.a), _mm256_cvtepi32_ps(words.b)};
}
TRIREME_INLINE Vf product(Vf x, Vf y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
TRIREME_INLINE Vf negative(Vf x, Vf y) {
    const Vf p = product(x, y);
    return {_mm256_sub_ps(_mm256_setzero_ps(), p.a), _mm256_sub_ps(_mm256_setzero_ps(), p.b)};
}
TRIREME_INLINE Vf multiply_add(Vf x, Vf y, Vf z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
TRIREME_INLINE Vf float_bits(V words) {
    return {_mm256_castsi256_ps(words.a), _mm256_castsi256_ps(words.b)};
}
TRIREME_INLINE Vf halves(const std::byte* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)))};
}
TRIREME_INLINE Vf half_of(V words, int upper) {
    const V low = both(right(words, 16 * upper), set(0xffff));
    const __m256i pairs = _mm256_packus_epi32(low.a, low.b);  // 0-3 of a, 0-3 of b, 4-7 of a, 4-7 of b
    const __m256i ordered = _mm256_permute4x64_epi64(pairs, 0xd8);
    return {_mm256_cvtph_ps(_mm256_castsi256_si128(ordered)), _mm256_cvtph_ps(_mm256_extracti128_si256(ordered, 1))};
}
TRIREME_INLINE Vf e8m0_halves(const std::byte* p) {
    const V e = {_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))),
                 _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))};
    const V normal = left(difference(e, set(1)), 23);
    const __m256i two = _mm256_set1_epi32(2), least = _mm256_set1_epi32(0x00200000);
    return {
        _mm256_castsi256_ps(_mm256_blendv_epi8(normal.a, _mm256_sllv_epi32(least, e.a), _mm256_cmpgt_epi32(two, e.a))),
        _mm256_castsi256_ps(_mm256_blendv_epi8(normal.b, _mm256_sllv_epi32(least, e.b), _mm256_cmpgt_epi32(two, e.b)))};
}
TRIREME_INLINE void store(Vf v, int from, int to, float* out) {
    float numbers[16];
    _mm256_storeu_ps(numbers, v.a);
    _mm256_storeu_ps(numbers + 8, v.b);
    std::memcpy(out, numbers + from, static_cast<size_t>(to - from) * sizeof(float));
}

TRIREME_INLINE int32_t largest_size(const float* v) {
    const V sign_off = set(0x7fffffff);
    const V a = both(load(reinterpret_cast<const std::byte*>(v)), sign_off);
    const V b = both(load(reinterpret_cast<const std::byte*>(v + 16)), sign_off);
    const __m256i most = _mm256_max_epi32(_mm256_max_epi32(a.a, a.b), _mm256_max_epi32(b.a, b.b));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(most), _mm256_extracti128_si256(most, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
}

constexpr int kMostRows = 4;
