/// The code of KV tiles (kernels/tile_code.h) on the CPU.

#include "kernels/tile_code.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/tile_decode_512.h"
#include "kernels/key_order.h"
#include "kernels/kv.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/tile_code.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Bytes = hn::CappedTag<uint8_t, 64>;  // 64 elements have one word of each plane
using Vb = hn::Vec<Bytes>;
constexpr int64_t kByteLanes = static_cast<int64_t>(hn::MaxLanes(Bytes()));

HWY_INLINE hn::Mask<Bytes> bits_at(const uint8_t* words, int plane, int64_t i) {
    return hn::LoadMaskBits(Bytes(), words + i / 64 * 24 + plane * 8 + i % 64 / 8);
}
HWY_INLINE uint64_t bits_of(hn::Mask<Bytes> mask) {
    uint8_t out[16] = {};  // Highway may write 8 bytes
    hn::StoreMaskBits(Bytes(), mask, out);
    uint64_t bits = 0;
    std::memcpy(&bits, out, sizeof bits);
    return kByteLanes == 64 ? bits : bits & ((uint64_t{1} << kByteLanes % 64) - 1);
}
HWY_INLINE void put_bits(hn::Mask<Bytes> mask, uint8_t* words, int plane, int64_t i) {
    const uint64_t bits = bits_of(mask);
    std::memcpy(words + i / 64 * 24 + plane * 8 + i % 64 / 8, &bits, kByteLanes / 8);
}

/// The exponents of kByteLanes elements.
HWY_INLINE Vb exponents(const uint8_t* plain, bool f16) {
    const Bytes d;
    Vb low, high;
    hn::LoadInterleaved2(d, plain, low, high);
    if (f16) return hn::And(hn::ShiftRight<2>(high), hn::Set(d, uint8_t{31}));
    return hn::Or(hn::Add(high, high), hn::ShiftRight<7>(low));
}

/// For each element of a block of 16 tokens: the largest exponent at its place in all blocks; and the numbers of blocks
/// whose distance from it is below 1, 2, 3, and above 6, 7, 8, 9.
void count_distances(const uint8_t* plain, bool f16, int64_t n, uint8_t* largest, uint8_t* counts) {
    const Bytes d;
    const Vb one = hn::Set(d, uint8_t{1});
    for (int64_t i = 0; i < n; i += kByteLanes) {
        const Vb most = hn::LoadU(d, largest + i);
        for (int limit = 0; limit < 7; ++limit) hn::StoreU(hn::Zero(d), d, counts + limit * n + i);
        for (int64_t b = 0; b < kTokenBlocks; ++b) {
            const Vb distance = hn::Sub(most, exponents(plain + 2 * (b * n + i), f16));
            for (int limit = 0; limit < 7; ++limit) {
                const auto is = limit < 3 ? hn::Lt(distance, hn::Set(d, static_cast<uint8_t>(limit + 1)))
                                          : hn::Gt(distance, hn::Set(d, static_cast<uint8_t>(limit + 3)));
                uint8_t* at = counts + limit * n + i;
                hn::StoreU(hn::Add(hn::LoadU(d, at), hn::IfThenElseZero(is, one)), d, at);
            }
        }
    }
}

void find_largest(const uint8_t* plain, bool f16, int64_t n, uint8_t* largest) {
    const Bytes d;
    for (int64_t i = 0; i < n; i += kByteLanes) {
        Vb most = exponents(plain + 2 * i, f16);
        for (int64_t b = 1; b < kTokenBlocks; ++b) most = hn::Max(most, exponents(plain + 2 * (b * n + i), f16));
        hn::StoreU(most, d, largest + i);
    }
}

/// Encodes a block of n elements. Escapes that fit go to `escapes`, of which there may be `room`; returns their number.
int64_t encode_block(const uint8_t* plain, bool f16, int64_t n, const uint8_t* base, uint8_t* low_plane, uint8_t* high,
                     uint8_t* codes, uint8_t* escapes, int64_t room) {
    const Bytes d;
    int64_t escaped = 0;
    for (int64_t i = 0; i < n; i += kByteLanes) {
        Vb low, top;
        hn::LoadInterleaved2(d, plain + 2 * i, low, top);
        const Vb exponent = exponents(plain + 2 * i, f16);
        if (f16) {
            put_bits(hn::TestBit(top, hn::Set(d, uint8_t{1})), high, 0, i);
            put_bits(hn::TestBit(top, hn::Set(d, uint8_t{2})), high, 1, i);
            put_bits(hn::TestBit(top, hn::Set(d, uint8_t{128})), high, 2, i);
        } else {
            low = hn::OrAnd(hn::And(top, hn::Set(d, uint8_t{128})), low, hn::Set(d, uint8_t{127}));
        }
        hn::StoreU(low, d, low_plane + i);
        const Vb code = hn::Min(hn::Sub(hn::LoadU(d, base + i), exponent), hn::Set(d, uint8_t{kEscape}));
        for (int plane = 0; plane < 3; ++plane) {
            put_bits(hn::TestBit(code, hn::Set(d, static_cast<uint8_t>(1 << plane))), codes, plane, i);
        }
        const auto escape = hn::Eq(code, hn::Set(d, uint8_t{kEscape}));
        if (HWY_LIKELY(hn::AllFalse(d, escape))) continue;
        HWY_ALIGN uint8_t of[kByteLanes];
        hn::Store(exponent, d, of);
        for (uint64_t left = bits_of(escape); left != 0; left &= left - 1, ++escaped) {
            if (escaped < room) escapes[escaped] = of[__builtin_ctzll(left)];
        }
    }
    return escaped;
}

/// The inverse. `escapes` holds at least `room`; later ones are 0.
void decode_block(uint8_t* plain, bool f16, int64_t n, const uint8_t* base, const uint8_t* low_plane,
                  const uint8_t* high, const uint8_t* codes, const uint8_t* escapes, int64_t room) {
    const Bytes d;
    int64_t escaped = 0;
    for (int64_t i = 0; i < n; i += kByteLanes) {
        const auto b0 = bits_at(codes, 0, i), b1 = bits_at(codes, 1, i), b2 = bits_at(codes, 2, i);
        const Vb code = hn::Or(
            hn::IfThenElseZero(b0, hn::Set(d, uint8_t{1})),
            hn::Or(hn::IfThenElseZero(b1, hn::Set(d, uint8_t{2})), hn::IfThenElseZero(b2, hn::Set(d, uint8_t{4}))));
        Vb exponent = hn::Sub(hn::LoadU(d, base + i), code);
        const auto escape = hn::And(b0, hn::And(b1, b2));
        if (!hn::AllFalse(d, escape)) {
            HWY_ALIGN uint8_t of[kByteLanes];
            hn::Store(exponent, d, of);
            for (uint64_t left = bits_of(escape); left != 0; left &= left - 1, ++escaped) {
                of[__builtin_ctzll(left)] = escaped < room ? escapes[escaped] : 0;
            }
            exponent = hn::Load(d, of);
        }
        Vb low = hn::LoadU(d, low_plane + i), top;
        if (f16) {
            top = hn::Or(hn::IfThenElseZero(bits_at(high, 0, i), hn::Set(d, uint8_t{1})),
                         hn::IfThenElseZero(bits_at(high, 1, i), hn::Set(d, uint8_t{2})));
            top = hn::Or(top, hn::IfThenElseZero(bits_at(high, 2, i), hn::Set(d, uint8_t{128})));
            top = hn::OrAnd(top, hn::ShiftLeft<2>(exponent), hn::Set(d, uint8_t{124}));
        } else {
            top = hn::OrAnd(hn::ShiftRight<1>(exponent), low, hn::Set(d, uint8_t{128}));
            low = hn::OrAnd(hn::ShiftLeft<7>(exponent), low, hn::Set(d, uint8_t{127}));
        }
        hn::StoreInterleaved2(low, top, d, plain + 2 * i);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(find_largest);
HWY_EXPORT(count_distances);
HWY_EXPORT(encode_block);
HWY_EXPORT(decode_block);

namespace {

/// A part of a tile: the keys, or the values, of a head.
struct Part {
    int64_t index, dim, plain;  // offset in the plain tile
    bool f16, by_blocks;        // keys are in blocks of 16 (key_order.h)
    int64_t data, high, codes;  // offsets in the coded tile

    Part(const TileCode& c, std::string_view backend, int64_t p) : index(p), dim(c.dim) {
        const bool value = p >= c.heads;
        const int64_t n = kTileTokens * dim;
        plain = p * n * 2;
        f16 = value ? c.v_f16 : c.k_f16;
        by_blocks = backend == "cpu" && !value;
        data = c.data + (value ? c.heads * c.k_part + (p - c.heads) * c.v_part : p * c.k_part);
        high = data + n;
        codes = f16 ? high + n / 8 * 3 : high;
    }
    int64_t elements_of_block() const { return kKeyBlock * dim; }
    /// Calls visit(element, channel) for the elements of a block, in the order of the tile.
    template <class Visit>
    void each(const Visit& visit) const {
        const int64_t together = by_blocks && !f16 ? 2 : 1, tokens = by_blocks ? kKeyBlock : 1;
        for (int64_t first = 0, i = 0; first < elements_of_block(); first += tokens * dim) {
            for (int64_t c = 0; c < dim; c += together) {
                for (int64_t t = 0; t < tokens; ++t) {
                    for (int64_t e = 0; e < together; ++e, ++i) visit(i, c + e);
                }
            }
        }
    }
};
static_assert(kTokenBlocks * kKeyBlock == kTileTokens);

const uint8_t* bytes_at(const char* p, int64_t offset) {
    return reinterpret_cast<const uint8_t*>(p) + offset;
}
uint8_t* bytes_at(char* p, int64_t offset) {
    return reinterpret_cast<uint8_t*>(p) + offset;
}

/// The best base of a channel among all exponents; the highest of those with the fewest escapes.
uint8_t choose_base(const Part& part, const uint8_t* plain, int64_t channel) {
    int32_t numbers[256 + kLongestCode] = {};  // from exponent -kLongestCode on
    const int64_t n = part.elements_of_block();
    part.each([&](int64_t i, int64_t of) {
        for (int64_t b = 0; of == channel && b < kTokenBlocks; ++b) {
            uint16_t x;
            std::memcpy(&x, plain + 2 * (b * n + i), sizeof x);
            ++numbers[kLongestCode + (part.f16 ? x >> 10 & 31 : x >> 7 & 255)];
        }
    });
    int best = 0, most = -1;
    for (int base = 0; base < 256; ++base) {
        int inside = 0;
        for (int code = 0; code <= kLongestCode; ++code) inside += numbers[kLongestCode + base - code];
        if (inside >= most) {
            best = base;
            most = inside;
        }
    }
    return static_cast<uint8_t>(best);
}

/// bases[channel], as tile_code.h describes.
void choose_bases(const Part& part, const uint8_t* plain, uint8_t* bases) {
    const int64_t n = part.elements_of_block();
    uint8_t largest[kKeyBlock * kCodedDim], counts[7 * kKeyBlock * kCodedDim], most[kCodedDim] = {};
    HWY_DYNAMIC_DISPATCH(find_largest)(plain, part.f16, n, largest);
    part.each([&](int64_t i, int64_t c) { most[c] = std::max(most[c], largest[i]); });
    part.each([&](int64_t i, int64_t c) { largest[i] = most[c]; });
    HWY_DYNAMIC_DISPATCH(count_distances)(plain, part.f16, n, largest, counts);
    int32_t outside[kLowestBase + 1][kCodedDim] = {};
    for (int s = 0; s <= kLowestBase; ++s) {
        const uint8_t *below = s == 0 ? nullptr : counts + (s - 1) * n, *above = counts + (3 + s) * n;
        part.each([&](int64_t i, int64_t c) { outside[s][c] += (s == 0 ? 0 : below[i]) + above[i]; });
    }
    for (int64_t c = 0; c < part.dim; ++c) {
        int best = 0;
        for (int s = 1; s <= kLowestBase; ++s) {
            if (outside[s][c] < outside[best][c]) best = s;
        }
        bases[c] = outside[best][c] > kManyEscapes ? choose_base(part, plain, c) : static_cast<uint8_t>(most[c] - best);
    }
}

void spread_bases(const Part& part, const uint8_t* bases, uint8_t* of_element) {
    part.each([&](int64_t i, int64_t c) { of_element[i] = bases[c]; });
}

void decode_elements(uint8_t* plain, bool f16, int64_t n, const uint8_t* base, const uint8_t* low_plane,
                     const uint8_t* high, const uint8_t* codes, const uint8_t* escapes, int64_t room) {
#if HWY_ARCH_X86_64
    if (has_tile_decode_512()) return tile_decode_512(plain, f16, n, base, low_plane, high, codes, escapes, room);
#endif
    HWY_DYNAMIC_DISPATCH(decode_block)(plain, f16, n, base, low_plane, high, codes, escapes, room);
}

}  // namespace

uint32_t encode_tile(const TileCode& c, std::string_view backend, const char* plain, char* coded) {
    int64_t escaped = 0;
    for (int64_t p = 0; p < 2 * c.heads; ++p) {
        const Part part(c, backend, p);
        const int64_t n = part.elements_of_block(), before = escaped;
        const uint8_t* from = bytes_at(plain, part.plain);
        uint8_t *bases = bytes_at(coded, c.bases + p * c.dim), base[kKeyBlock * kCodedDim];
        choose_bases(part, from, bases);
        spread_bases(part, bases, base);
        for (int64_t b = 0; b < kTokenBlocks; ++b) {
            const auto start = static_cast<uint16_t>(escaped - before);
            std::memcpy(coded + c.blocks + 2 * (p * kTokenBlocks + b), &start, sizeof start);
            escaped += HWY_DYNAMIC_DISPATCH(encode_block)(
                from + 2 * b * n, part.f16, n, base, bytes_at(coded, part.data + b * n),
                bytes_at(coded, part.high + b * n / 8 * 3), bytes_at(coded, part.codes + b * n / 8 * 3),
                bytes_at(coded, c.escapes + std::min(escaped, c.capacity)), std::max(int64_t{0}, c.capacity - escaped));
        }
        const auto total = static_cast<uint32_t>(escaped - before);
        std::memcpy(coded + 4 * p, &total, sizeof total);
    }
    return static_cast<uint32_t>(escaped);
}

void decode_tile(const TileCode& c, std::string_view backend, const char* coded, char* plain) {
    int64_t before = 0;
    for (int64_t p = 0; p < 2 * c.heads; ++p) {
        const Part part(c, backend, p);
        const int64_t n = part.elements_of_block();
        uint8_t base[kKeyBlock * kCodedDim];
        spread_bases(part, bytes_at(coded, c.bases + p * c.dim), base);
        for (int64_t b = 0; b < kTokenBlocks; ++b) {
            uint16_t start;
            std::memcpy(&start, coded + c.blocks + 2 * (p * kTokenBlocks + b), sizeof start);
            const int64_t first = std::min(before + start, c.capacity);
            decode_elements(bytes_at(plain, part.plain + 2 * b * n), part.f16, n, base,
                            bytes_at(coded, part.data + b * n), bytes_at(coded, part.high + b * n / 8 * 3),
                            bytes_at(coded, part.codes + b * n / 8 * 3), bytes_at(coded, c.escapes + first),
                            c.capacity - first);
        }
        uint32_t total;
        std::memcpy(&total, coded + 4 * p, sizeof total);
        before += total;
    }
}

}  // namespace trireme
#endif  // HWY_ONCE
