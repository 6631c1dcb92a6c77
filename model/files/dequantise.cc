#include "model/files/dequantise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/error.h"

namespace trireme {
namespace {

uint8_t u8(const std::byte* p) {
    return static_cast<uint8_t>(*p);
}
float i8(const std::byte* p) {
    return static_cast<float>(static_cast<int8_t>(*p));
}

float half_at(const std::byte* p) {
    uint16_t bits = 0;
    std::memcpy(&bits, p, 2);
    return static_cast<float>(f16::from_bits(bits));
}

// Blocks of 32: [d][m: x_1 only][high bits, 4 bytes: 5-bit only][16 bytes]. Byte j holds element j in its low half and
// element j + 16 in its high half; bit j of the high bits is bit 4 of element j.
template <bool kFive, bool kOffset>
void small_block(const std::byte* b, float* out) {
    const float d = half_at(b);
    const float m = kOffset ? half_at(b + 2) : 0.0f;
    const std::byte* high_at = b + (kOffset ? 4 : 2);
    const std::byte* q = high_at + (kFive ? 4 : 0);
    uint32_t high = 0;
    if constexpr (kFive) std::memcpy(&high, high_at, 4);
    for (size_t j = 0; j < 16; ++j) {
        int lo = u8(q + j) & 15, hi = u8(q + j) >> 4;
        if constexpr (kFive) {
            lo |= static_cast<int>((high >> j) & 1u) << 4;
            hi |= static_cast<int>((high >> (j + 16)) & 1u) << 4;
        }
        if constexpr (kOffset) {
            out[j] = static_cast<float>(lo) * d + m;
            out[j + 16] = static_cast<float>(hi) * d + m;
        } else {
            constexpr int kZero = kFive ? 16 : 8;
            out[j] = static_cast<float>(lo - kZero) * d;
            out[j + 16] = static_cast<float>(hi - kZero) * d;
        }
    }
}

void q8_0_block(const std::byte* b, float* out) {
    const float d = half_at(b);
    for (size_t j = 0; j < 32; ++j) out[j] = i8(b + 2 + j) * d;
}

/// Decodes 16 bytes to 32 elements: the low halves, then the high ones.
void codes(const std::byte* q, const int8_t (&values)[16], float scale, float* out) {
    for (size_t j = 0; j < 16; ++j) {
        out[j] = scale * static_cast<float>(values[u8(q + j) & 15]);
        out[j + 16] = scale * static_cast<float>(values[u8(q + j) >> 4]);
    }
}

void iq4_nl(const std::byte* b, float* out) {
    codes(b + 2, kUnevenValues, half_at(b), out);
}

// [e][16 bytes]: the scale is an e8m0 number.
void mxfp4(const std::byte* b, float* out) {
    codes(b + 1, kE2m1Values, e8m0_half(u8(b)), out);
}

// [f32 scale and zero point][16 bytes, as in Q4_0].
void int4(const std::byte* b, float* out) {
    uint32_t word = 0;
    std::memcpy(&word, b, 4);
    const auto [scale, zero] = int4_scale(word);
    for (size_t j = 0; j < 16; ++j) {
        out[j] = static_cast<float>((u8(b + 4 + j) & 15) - zero) * scale;
        out[j + 16] = static_cast<float>((u8(b + 4 + j) >> 4) - zero) * scale;
    }
}

// [f32 scale][32 e4m3 numbers].
void fp8(const std::byte* b, float* out) {
    float scale = 0;
    std::memcpy(&scale, b, 4);
    for (size_t j = 0; j < 32; ++j) {
        const bool nan = (u8(b + 4 + j) & 0x7f) == 0x7f;
        const float value = static_cast<float>(f16::from_bits(e4m3_as_half(u8(b + 4 + j)))) * 256.0F;
        out[j] = (nan ? std::numeric_limits<float>::quiet_NaN() : value) * scale;
    }
}

// Blocks of 256 in 16 groups of 16: [16 bytes: scale and minimum, four bits each][64 bytes][d][dmin]. 32 bytes hold
// eight groups: two bits of group 2r + h are bits 2r of its half h of the bytes.
void q2_k(const std::byte* b, float* out) {
    const float d = half_at(b + 80), dmin = half_at(b + 82);
    for (size_t g = 0; g < 16; ++g) {
        const float scale = d * static_cast<float>(u8(b + g) & 15), min = dmin * static_cast<float>(u8(b + g) >> 4);
        const std::byte* q = b + 16 + g / 8 * 32 + g % 2 * 16;
        const int shift = static_cast<int>(g / 2 % 4 * 2);
        for (size_t l = 0; l < 16; ++l) {
            out[g * 16 + l] = scale * static_cast<float>((u8(q + l) >> shift) & 3) - min;
        }
    }
}

// Blocks of 256 in 16 groups of 16: [32 bytes of third bits][64 bytes as in Q2_K][12 bytes of scales][d]. Bit r of byte
// l is set if 4 is NOT subtracted from element l of run r of 32. Scales have six bits minus 32: the low four of group
// g are in byte g % 8, the upper two in bits 2 (g / 4) of byte 8 + g % 4.
void q3_k(const std::byte* b, float* out) {
    const float d = half_at(b + 108);
    const std::byte* scales = b + 96;
    for (size_t g = 0; g < 16; ++g) {
        const int low = g < 8 ? u8(scales + g) & 15 : u8(scales + g - 8) >> 4;
        const int high = (u8(scales + 8 + g % 4) >> (g / 4 * 2)) & 3;
        const float scale = d * static_cast<float>((low | high << 4) - 32);
        const std::byte *q = b + 32 + g / 8 * 32 + g % 2 * 16, *third = b + g % 2 * 16;
        const int shift = static_cast<int>(g / 2 % 4 * 2);
        for (size_t l = 0; l < 16; ++l) {
            const int v = ((u8(q + l) >> shift) & 3) - ((u8(third + l) >> (g / 2)) & 1 ? 0 : 4);
            out[g * 16 + l] = scale * static_cast<float>(v);
        }
    }
}

// Blocks of 256 in 8 groups of 32: [d][16 bits of upper scale bits][4 bytes of lower ones][128 bytes of codes]. Scales
// have six bits minus 32.
void iq4_xs(const std::byte* b, float* out) {
    const float d = half_at(b);
    const uint32_t high = static_cast<uint32_t>(u8(b + 2)) | static_cast<uint32_t>(u8(b + 3)) << 8;
    for (size_t g = 0; g < 8; ++g) {
        const int low = g % 2 == 0 ? u8(b + 4 + g / 2) & 15 : u8(b + 4 + g / 2) >> 4;
        const int scale = (low | static_cast<int>((high >> (2 * g)) & 3u) << 4) - 32;
        codes(b + 8 + g * 16, kUnevenValues, d * static_cast<float>(scale), out + g * 32);
    }
}

/// Scale and minimum of group `g` of 8, six bits each, packed in 12 bytes: groups 0..3 lie in the low bits of bytes g
/// and g + 4; groups 4..7 have their low four bits in byte g + 4 and the upper two on top of bytes g - 4 and g.
struct ScaleMin {
    float scale, min;
};
ScaleMin scale_min(const std::byte* s, size_t g) {
    if (g < 4) return {static_cast<float>(u8(s + g) & 63), static_cast<float>(u8(s + g + 4) & 63)};
    const int scale = (u8(s + g + 4) & 15) | ((u8(s + g - 4) >> 6) << 4);
    const int min = (u8(s + g + 4) >> 4) | ((u8(s + g) >> 6) << 4);
    return {static_cast<float>(scale), static_cast<float>(min)};
}

// Blocks of 256 in 8 groups of 32: [d][dmin][12 bytes of scales][32 bytes of fifth bits: Q5_K only][128 bytes].
// 32 bytes hold two groups: the low halves, then the high ones. Bit g of byte l is bit 4 of element l of group g.
template <bool kFive>
void k_block(const std::byte* b, float* out) {
    const float d = half_at(b), dmin = half_at(b + 2);
    const std::byte* scales = b + 4;
    const std::byte* high = b + 16;
    const std::byte* q = high + (kFive ? 32 : 0);
    for (size_t g = 0; g < 8; ++g) {
        const ScaleMin s = scale_min(scales, g);
        const float scale = d * s.scale, min = dmin * s.min;
        const std::byte* bytes = q + g / 2 * 32;
        for (size_t l = 0; l < 32; ++l) {
            int v = g % 2 == 0 ? u8(bytes + l) & 15 : u8(bytes + l) >> 4;
            if constexpr (kFive) v |= ((u8(high + l) >> g) & 1) << 4;
            out[g * 32 + l] = scale * static_cast<float>(v) - min;
        }
    }
}

// Blocks of 256: [128 bytes of low halves][64 bytes of upper two bits][16 signed scales][d]. Each half of the block has
// four runs of 32: the low halves of its 64 bytes, then the high ones; run r's upper bits are bits 2r of 32 bytes.
void q6_k(const std::byte* b, float* out) {
    const float d = half_at(b + 208);
    for (size_t half = 0; half < 2; ++half) {
        const std::byte* low = b + half * 64;
        const std::byte* high = b + 128 + half * 32;
        const std::byte* scales = b + 192 + half * 8;
        for (size_t r = 0; r < 4; ++r) {
            for (size_t l0 = 0; l0 < 32; l0 += 16) {
                const float scale = d * i8(scales + 2 * r + l0 / 16);
                const int low_shift = r < 2 ? 0 : 4, high_shift = 2 * static_cast<int>(r);
                for (size_t l = l0; l < l0 + 16; ++l) {
                    const int v =
                        ((u8(low + r % 2 * 32 + l) >> low_shift) & 15) | (((u8(high + l) >> high_shift) & 3) << 4);
                    out[half * 128 + r * 32 + l] = scale * static_cast<float>(v - 32);
                }
            }
        }
    }
}

}  // namespace

void dequantise(StoredType type, const std::byte* blocks, int64_t n, float* out) {
    const BlockLayout layout = layout_of(type);
    check(is_quantised(type) && n % layout.elements == 0, "dequantise: {} elements of {}", n, name_of(type));
    const auto all = [&](auto block) {
        for (int64_t i = 0; i < n; i += layout.elements, blocks += layout.bytes) block(blocks, out + i);
    };
    switch (type) {
        case StoredType::kQ4_0:
            return all(small_block<false, false>);
        case StoredType::kQ4_1:
            return all(small_block<false, true>);
        case StoredType::kQ5_0:
            return all(small_block<true, false>);
        case StoredType::kQ5_1:
            return all(small_block<true, true>);
        case StoredType::kQ8_0:
            return all(q8_0_block);
        case StoredType::kIQ4_NL:
            return all(iq4_nl);
        case StoredType::kMXFP4:
            return all(mxfp4);
        case StoredType::kQ2_K:
            return all(q2_k);
        case StoredType::kQ3_K:
            return all(q3_k);
        case StoredType::kIQ4_XS:
            return all(iq4_xs);
        case StoredType::kQ4_K:
            return all(k_block<false>);
        case StoredType::kQ5_K:
            return all(k_block<true>);
        case StoredType::kQ6_K:
            return all(q6_k);
        case StoredType::kInt4:
            return all(int4);
        case StoredType::kFP8:
            return all(fp8);
        case StoredType::kF32:
        case StoredType::kF16:
        case StoredType::kBF16:
            break;
    }
    fail(Exit::kInternal, "dequantise: {} has no blocks", name_of(type));
}

bool finite_scales(StoredType type, const std::byte* blocks, int64_t n) {
    check(is_quantised(type), "finite_scales: {} has no blocks", name_of(type));
    const BlockLayout layout = layout_of(type);
    const HalfPositions halves = halves_of(type);
    const auto finite = [](const std::byte* block, int at) {
        if (at < 0) return true;
        uint16_t bits = 0;
        std::memcpy(&bits, block + at, 2);
        return (bits & 0x7c00u) != 0x7c00u;
    };
    for (int64_t i = 0; i < n; i += layout.elements, blocks += layout.bytes) {
        if (!finite(blocks, halves.first) || !finite(blocks, halves.second)) return false;
        if (type == StoredType::kMXFP4 && u8(blocks) >= 250) return false;
        if (type != StoredType::kInt4 && type != StoredType::kFP8) continue;
        uint32_t scale = 0;
        std::memcpy(&scale, blocks, 4);
        constexpr uint32_t kLargest = 245;  // exponent of a scale that 448 multiplies to a finite number
        if ((scale >> 23 & 255u) > kLargest) return false;
        const auto is_nan = [](std::byte code) { return (code & std::byte{0x7f}) == std::byte{0x7f}; };
        if (type == StoredType::kFP8 && std::any_of(blocks + 4, blocks + 36, is_nan)) return false;
    }
    return true;
}

bool surely_fit_f16(StoredType type, const std::byte* blocks, int64_t n) {
    // The largest code with the largest scale of a group, and the largest factor of what is added.
    struct Most {
        float code, added;
    };
    const auto most = [type]() -> Most {
        switch (type) {
            case StoredType::kQ4_1:
                return {15, 1};
            case StoredType::kQ5_0:
                return {16, 0};
            case StoredType::kQ5_1:
                return {31, 1};
            case StoredType::kQ2_K:
                return {3 * 15, 15};
            case StoredType::kQ3_K:
                return {4 * 32, 0};
            case StoredType::kQ4_K:
                return {15 * 63, 63};
            case StoredType::kQ5_K:
                return {31 * 63, 63};
            case StoredType::kQ6_K:
                return {32 * 128, 0};
            case StoredType::kIQ4_XS:
                return {127 * 32, 0};
            case StoredType::kMXFP4:
                return {12, 0};
            case StoredType::kInt4:
                return {16, 0};
            case StoredType::kFP8:
                return {448, 0};
            default:
                return {128, 0};
        }
    }();
    const BlockLayout layout = layout_of(type);
    const HalfPositions halves = halves_of(type);
    for (int64_t i = 0; i < n; i += layout.elements, blocks += layout.bytes) {
        float scale = halves.first >= 0 ? half_at(blocks + halves.first) : 0, added = 0;
        if (halves.second >= 0) added = half_at(blocks + halves.second);
        if (type == StoredType::kMXFP4) scale = e8m0_half(u8(blocks));
        if (type == StoredType::kInt4 || type == StoredType::kFP8) std::memcpy(&scale, blocks, 4);
        if (!(std::fabs(scale) * most.code + std::fabs(added) * most.added <= 65504.0F)) return false;
    }
    return true;
}

}  // namespace trireme
