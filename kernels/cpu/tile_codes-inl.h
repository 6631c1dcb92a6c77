/// Codes and scales of interleaved weights (kernels/interleaved.h): a register has four codes, or one scale, of each of
/// the sixteen rows of a tile. byte_tiles-inl.h includes this file.

TRIREME_INLINE V word(const std::byte* block, int64_t i) {
    return load(block + i * 64);
}
/// Bits of every byte: v >> shift & mask. Bits of a byte's neighbour are outside of the mask.
TRIREME_INLINE V bits(V v, int shift, int mask) {
    return both(right(v, shift), set_bytes(mask));
}
/// The same, to the left.
TRIREME_INLINE V bits_up(V v, int shift, int mask) {
    return both(left(v, shift), set_bytes(mask));
}
/// v >> shift & mask of every word.
TRIREME_INLINE V field(V v, int shift, int mask) {
    return both(right(v, shift), set(mask));
}

using enum StoredType;

constexpr bool by_16(StoredType t) {
    return t == kQ2_K || t == kQ3_K || t == kQ6_K;
}
constexpr bool with_offset(StoredType t) {
    return t == kQ4_1 || t == kQ5_1 || t == kQ2_K || t == kQ4_K || t == kQ5_K;
}
constexpr bool by_table(StoredType t) {
    return t == kIQ4_NL || t == kIQ4_XS || t == kMXFP4;
}
/// What was added to signed codes: dot products take unsigned ones. A block of INT4 has its own zero point.
constexpr int zero_of(StoredType t) {
    switch (t) {
        case kQ4_0:
            return 8;
        case kQ5_0:
            return 16;
        case kQ8_0:
        case kIQ4_NL:
        case kIQ4_XS:
            return 128;
        case kMXFP4:
            return 12;
        case kQ6_K:
            return 32;
        case kQ3_K:
            return 4;
        default:
            return 0;
    }
}

/// Codes by 4-bit number, unsigned.
template <StoredType kType>
TRIREME_INLINE V looked_up(V nibbles) {
    uint8_t table[16];
    for (int i = 0; i < 16; ++i) {
        table[i] = static_cast<uint8_t>((kType == kMXFP4 ? kE2m1Values[i] : kUnevenValues[i]) + zero_of(kType));
    }
    return look_up(table, nibbles);
}

/// Four codes of each row: elements [32 cell + 4 j, + 4) of a block.
template <StoredType kType>
TRIREME_INLINE V codes_of(const std::byte* b, int cell, int j) {
    if constexpr (kType == kQ8_0) return flipped(word(b, j), set(static_cast<int32_t>(0x80808080u)));
    if constexpr (kType == kQ4_0 || kType == kIQ4_NL || kType == kMXFP4) {
        const V v = bits(word(b, j % 4), j / 4 * 4, 15);
        if constexpr (by_table(kType)) return looked_up<kType>(v);
        return v;
    }
    if constexpr (kType == kQ4_1 || kType == kInt4) return bits(word(b, 1 + j % 4), j / 4 * 4, 15);
    if constexpr (kType == kIQ4_XS) return looked_up<kType>(bits(word(b, 2 + cell * 4 + j % 4), j / 4 * 4, 15));
    if constexpr (kType == kQ5_0 || kType == kQ5_1) {
        constexpr int kFirst = kType == kQ5_0 ? 0 : 1;
        // Bits 4 j to 4 j + 3 of a word are the fifth bits of its four codes: byte j / 2 goes to every byte.
        const V low = bits(word(b, kFirst + 1 + j % 4), j / 4 * 4, 15);
        return with_fifth(low, word(b, kFirst), j / 2, j % 2 == 0 ? 0x08040201 : static_cast<int32_t>(0x80402010u));
    }
    if constexpr (kType == kQ4_K) return bits(word(b, 4 + cell / 2 * 8 + j), cell % 2 * 4, 15);
    if constexpr (kType == kQ5_K) {
        const V low = bits(word(b, 12 + cell / 2 * 8 + j), cell % 2 * 4, 15), high = word(b, 4 + j);
        return either(low, cell < 4 ? bits_up(high, 4 - cell, 16) : bits(high, cell - 4, 16));
    }
    const int half = cell / 4, run = cell % 4;
    if constexpr (kType == kQ6_K) {
        const V low = bits(word(b, half * 16 + run % 2 * 8 + j), run / 2 * 4, 15), high = word(b, 32 + half * 8 + j);
        return either(low, run < 2 ? bits_up(high, 4 - 2 * run, 48) : bits(high, 2 * run - 4, 48));
    }
    if constexpr (kType == kQ2_K) return bits(word(b, 4 + half * 8 + j), 2 * run, 3);
    if constexpr (kType == kQ3_K) {
        const V low = bits(word(b, 8 + half * 8 + j), 2 * run, 3), third = word(b, j);
        return either(low, cell < 2 ? bits_up(third, 2 - cell, 4) : bits(third, cell - 2, 4));
    }
}

/// What a block has once for all its groups.
struct BlockScales {
    Vf d, m;
    V a, b, c;  // words of scales
};
template <StoredType kType>
TRIREME_INLINE BlockScales block_scales(const std::byte* b) {
    BlockScales s{};
    const std::byte* ends = b + words_of(kType) * 64;
    if constexpr (kType == kQ4_0 || kType == kQ5_0 || kType == kQ8_0 || kType == kIQ4_NL) s.d = halves(ends);
    if constexpr (kType == kQ4_1 || kType == kQ5_1) {
        s.d = half_of(word(b, 0), 0);
        s.m = half_of(word(b, 0), 1);
    }
    if constexpr (kType == kMXFP4) s.d = e8m0_halves(ends);
    if constexpr (kType == kInt4) {
        s.d = float_bits(both(word(b, 0), set(static_cast<int32_t>(0xffffff00u))));
        s.a = both(word(b, 0), set(255));
    }
    if constexpr (kType == kQ4_K || kType == kQ5_K) {
        s.d = half_of(word(b, 0), 0);
        s.m = half_of(word(b, 0), 1);
        s.a = word(b, 1);
        s.b = word(b, 2);
        s.c = word(b, 3);
    }
    if constexpr (kType == kQ2_K) {
        s.d = half_of(word(b, 20), 0);
        s.m = half_of(word(b, 20), 1);
    }
    if constexpr (kType == kQ3_K || kType == kQ6_K) s.d = halves(ends);
    if constexpr (kType == kIQ4_XS) s.d = half_of(word(b, 0), 0);
    return s;
}

/// The scale of a group of 32 or 16 elements, and with offsets the number that is added to each weight.
struct GroupScale {
    Vf scale, offset;
};
template <StoredType kType>
TRIREME_INLINE GroupScale group_scale(const std::byte* b, const BlockScales& s, int g) {
    if constexpr (kType == kQ4_K || kType == kQ5_K) {
        V scale, min;
        if (g < 4) {
            scale = field(s.a, 8 * g, 63);
            min = field(s.b, 8 * g, 63);
        } else {
            const int at = 8 * (g - 4);
            scale = either(field(s.c, at, 15), left(field(s.a, at + 6, 3), 4));
            min = either(field(s.c, at + 4, 15), left(field(s.b, at + 6, 3), 4));
        }
        return {product(s.d, number(scale)), negative(s.m, number(min))};
    }
    if constexpr (kType == kQ2_K) {
        const V pairs = word(b, g / 4);
        return {product(s.d, number(field(pairs, g % 4 * 8, 15))),
                negative(s.m, number(field(pairs, g % 4 * 8 + 4, 15)))};
    }
    if constexpr (kType == kQ6_K) {
        const V scale = signed_byte(word(b, 48 + g / 4), g % 4);
        return {product(s.d, number(scale)), zero()};
    }
    if constexpr (kType == kQ3_K) {
        const V low = field(word(b, 24 + g / 4 % 2), g % 4 * 8 + g / 8 * 4, 15);
        const V high = field(word(b, 26), g % 4 * 8 + g / 4 * 2, 3);
        const V scale = difference(either(low, left(high, 4)), set(32));
        return {product(s.d, number(scale)), zero()};
    }
    if constexpr (kType == kIQ4_XS) {
        const V low = field(word(b, 1), 4 * g, 15), high = field(word(b, 0), 16 + 2 * g, 3);
        const V scale = difference(either(low, left(high, 4)), set(32));
        return {product(s.d, number(scale)), zero()};
    }
    return {s.d, s.m};
}
