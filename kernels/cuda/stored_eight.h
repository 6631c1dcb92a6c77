#pragma once
/// StoredEight: 8 consecutive elements of a block of quantised weights (runtime/stored_type.h; model/files describes
/// the formats). Values of weights that were loaded are those of dequantise(), bit for bit.

#include "runtime/cuda/gpu.h"
#include "runtime/stored_type.h"

namespace trireme::gpu {

/// Bytes that the addresses of a type's blocks are multiples of, at most 8, if the first block is at a multiple of 8.
constexpr int block_alignment(StoredType t) {
    const size_t bytes = layout_of(t).bytes;
    return static_cast<int>(bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : bytes % 2 == 0 ? 2 : 1);
}

/// Four bytes, the first one lowest.
template <int kAlignment>
TRIREME_GPU uint32_t four_bytes(const uint8_t* p) {
    if constexpr (kAlignment >= 4) {
        return *reinterpret_cast<const uint32_t*>(p);
    } else if constexpr (kAlignment == 2) {
        const auto* half = reinterpret_cast<const uint16_t*>(p);
        return half[0] | uint32_t{half[1]} << 16;
    } else {
        return p[0] | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
    }
}

TRIREME_GPU float half_at(const uint8_t* p) {
    return widen(*reinterpret_cast<const f16*>(p));
}

/// Entries [first, first + 8) of a table of codes, the first one lowest.
constexpr uint64_t eight_codes(const int8_t (&table)[16], int first) {
    uint64_t packed = 0;
    for (int i = 0; i < 8; ++i) packed |= uint64_t{static_cast<uint8_t>(table[first + i])} << (8 * i);
    return packed;
}

template <StoredType kType>
class StoredEight {
    using enum StoredType;
    static constexpr int kAlign = block_alignment(kType);
    static constexpr bool kNibbles = kType == kQ4_0 || kType == kQ4_1 || kType == kQ5_0 || kType == kQ5_1;
    static constexpr bool kFive = kType == kQ5_0 || kType == kQ5_1 || kType == kQ5_K;
    static constexpr bool kOffset =
        kType == kQ4_1 || kType == kQ5_1 || kType == kQ2_K || kType == kQ4_K || kType == kQ5_K;
    static constexpr bool kTable = kType == kIQ4_NL || kType == kIQ4_XS || kType == kMXFP4;
    /// The code of zero.
    static constexpr int kZero = kType == kQ4_0   ? 8
                                 : kType == kQ5_0 ? 16
                                 : kType == kQ6_K ? 32
                                 : kType == kQ3_K ? 4
                                                  : 0;
    static constexpr uint64_t kLowCodes = eight_codes(kType == kMXFP4 ? kE2m1Values : kUnevenValues, 0);
    static constexpr uint64_t kHighCodes = eight_codes(kType == kMXFP4 ? kE2m1Values : kUnevenValues, 8);

  public:
    static constexpr int kElements = static_cast<int>(layout_of(kType).elements);
    static constexpr int kBytes = static_cast<int>(layout_of(kType).bytes);

    /// Reads elements [first, first + 8) of block `b`; `first` is a multiple of 8.
    TRIREME_GPU StoredEight(const uint8_t* b, int first) {
        if constexpr (kNibbles) {
            constexpr int kCodes = 2 + (kOffset ? 2 : 0) + (kFive ? 4 : 0);
            scale_ = half_at(b);
            if constexpr (kOffset) offset_ = half_at(b + 2);
            nibbles(b + kCodes + first % 16, first / 16);
            if constexpr (kFive) {
                const uint32_t fifth = four_bytes<kAlign>(b + kCodes - 4) >> first;
                codes_[0] |= spread(fifth);
                codes_[1] |= spread(fifth >> 4);
            }
        } else if constexpr (kType == kQ8_0) {
            scale_ = half_at(b);
            read(b + 2 + first);
        } else if constexpr (kType == kIQ4_NL) {
            scale_ = half_at(b);
            nibbles(b + 2 + first % 16, first / 16);
        } else if constexpr (kType == kMXFP4) {
            const uint32_t e = b[0];
            scale_ = float_of(e < 2 ? 0x00200000u << e : (e - 1) << 23);
            nibbles(b + 1 + first % 16, first / 16);
        } else if constexpr (kType == kQ2_K) {
            const int g = first / 16;
            scale_ = half_at(b + 80) * static_cast<float>(b[g] & 15);
            offset_ = -(half_at(b + 82) * static_cast<float>(b[g] >> 4));
            read(b + 16 + g / 8 * 32 + first % 32);
            keep(g / 2 % 4 * 2, 0x03030303u);
        } else if constexpr (kType == kQ3_K) {
            const int g = first / 16;
            const uint8_t* s = b + 96;
            const int low = g < 8 ? s[g] & 15 : s[g - 8] >> 4, high = s[8 + g % 4] >> (g / 4 * 2) & 3;
            scale_ = half_at(b + 108) * static_cast<float>((low | high << 4) - 32);
            read(b + 32 + g / 8 * 32 + first % 32);
            keep(g / 2 % 4 * 2, 0x03030303u);
            add_bits(b + first % 32, g / 2, 2);
        } else if constexpr (kType == kQ4_K || kType == kQ5_K) {
            const int g = first / 32;
            const uint8_t* s = b + 4;
            const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
            const int min = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
            scale_ = half_at(b) * static_cast<float>(scale);
            offset_ = -(half_at(b + 2) * static_cast<float>(min));
            nibbles(b + (kFive ? 48 : 16) + g / 2 * 32 + first % 32, g % 2);
            if constexpr (kFive) add_bits(b + 16 + first % 32, g, 4);
        } else if constexpr (kType == kQ6_K) {
            const int half = first / 128, run = first / 32 % 4, at = first % 32;
            scale_ = half_at(b + 208) * static_cast<float>(static_cast<int8_t>(b[192 + first / 16]));
            nibbles(b + half * 64 + run % 2 * 32 + at, run / 2);
            const uint8_t* high = b + 128 + half * 32 + at;
            for (int i = 0; i < 2; ++i) {
                codes_[i] |= (four_bytes<kAlign>(high + 4 * i) >> (2 * run) & 0x03030303u) << 4;
            }
        } else if constexpr (kType == kInt4) {
            const uint32_t word = four_bytes<kAlign>(b);
            scale_ = float_of(word & 0xffffff00u);
            zero_ = static_cast<int>(word & 0xffu);
            nibbles(b + 4 + first % 16, first / 16);
        } else if constexpr (kType == kFP8) {
            scale_ = float_of(four_bytes<kAlign>(b));
            read(b + 4 + first);
        } else {
            static_assert(kType == kIQ4_XS, "a type of blocks");
            const int g = first / 32, high = (b[2] | b[3] << 8) >> (2 * g) & 3;
            const int low = g % 2 == 0 ? b[4 + g / 2] & 15 : b[4 + g / 2] >> 4;
            scale_ = half_at(b) * static_cast<float>((low | high << 4) - 32);
            nibbles(b + 8 + g * 16 + first % 16, first / 16 % 2);
        }
    }

    /// Element first + i.
    TRIREME_GPU float operator[](int i) const {
        const auto code = static_cast<uint8_t>(codes_[i / 4] >> (8 * (i % 4)));
        if constexpr (kType == kFP8) {
            f16 half;
            half.bits = e4m3_as_half(code);
            return widen(half) * 256.0f * scale_;
        }
        const float product = static_cast<float>(number(code)) * scale_;
        if constexpr (kOffset) return product + offset_;
        return product;
    }

  private:
    TRIREME_GPU void read(const uint8_t* p) {
        for (int i = 0; i < 2; ++i) codes_[i] = four_bytes<kAlign>(p + 4 * i);
    }
    /// Keeps these bits of every code, from bit `shift` on. Bits of a code's neighbour are outside of the mask.
    TRIREME_GPU void keep(int shift, uint32_t mask) {
        for (uint32_t& codes : codes_) codes = codes >> shift & mask;
    }
    /// The low or high halves of 8 bytes.
    TRIREME_GPU void nibbles(const uint8_t* p, int high) {
        read(p);
        keep(4 * high, 0x0f0f0f0fu);
    }
    /// Bit `from` of each of 8 bytes becomes bit `to` of a code.
    TRIREME_GPU void add_bits(const uint8_t* p, int from, int to) {
        for (int i = 0; i < 2; ++i) codes_[i] |= (four_bytes<kAlign>(p + 4 * i) >> from & 0x01010101u) << to;
    }
    /// The lowest four bits as bit 4 of four codes.
    TRIREME_GPU static uint32_t spread(uint32_t bits) {
        return (bits & 1) << 4 | (bits & 2) << 11 | (bits & 4) << 18 | (bits & 8) << 25;
    }
    /// The signed number of a code.
    TRIREME_GPU int number(uint8_t code) const {
        if constexpr (kTable) {
            return static_cast<int8_t>((code < 8 ? kLowCodes : kHighCodes) >> (8 * (code % 8)));
        } else if constexpr (kType == kQ8_0) {
            return static_cast<int8_t>(code);
        } else if constexpr (kType == kInt4) {
            return code - zero_;
        } else {
            return code - kZero;
        }
    }

    uint32_t codes_[2];  // a byte each
    float scale_, offset_ = 0;
    int zero_ = 0;
};

}  // namespace trireme::gpu
