#include "model/files/quantise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "model/files/quantise_search.h"
#include "runtime/error.h"

namespace trireme {
namespace {

/// 1 / d; 0 for a d so small that f16 rounds it to 0 and the quotient is infinite.
float inverse_of(float d) {
    const float inverse = 1.0F / d;
    return std::isfinite(inverse) ? inverse : 0.0F;
}

/// Writes a scale as f16. Returns whether it is finite.
bool put_half(std::byte* to, float value) {
    const f16 half(value);
    std::memcpy(to, &half, 2);
    return std::isfinite(static_cast<float>(half));
}

std::byte byte(uint32_t bits) {
    return static_cast<std::byte>(bits);
}

uint32_t code(float q) {
    return static_cast<uint32_t>(static_cast<int>(q));
}

// The layouts are described in dequantise.cc.

/// Q4_0, Q5_0 (x = d (q - zero); the value that is farthest from 0 becomes q = 0), Q4_1, Q5_1 (x = d q + m).
template <bool kFive, bool kOffset>
bool small_block(const float* x, std::byte* b) {
    constexpr int kMost = kFive ? 31 : 15;
    constexpr int kZero = (kMost + 1) / 2;
    float d = 0, add = 0, from = 0;
    bool fits = true;
    if constexpr (kOffset) {
        from = *std::min_element(x, x + 32);
        d = (*std::max_element(x, x + 32) - from) / static_cast<float>(kMost);
        add = 0.5F;
        fits = put_half(b + 2, from);
    } else {
        const float extreme =
            *std::max_element(x, x + 32, [](float a, float c) { return std::fabs(a) < std::fabs(c); });
        d = (extreme == 0 ? 0.0F : extreme) / static_cast<float>(-kZero);  // -0 if all are 0, as there
        add = static_cast<float>(kZero) + 0.5F;
    }
    fits = put_half(b, d) && fits;
    const float inverse = inverse_of(d);
    std::byte* const q = b + (kOffset ? 4 : 2) + (kFive ? 4 : 0);
    uint32_t high = 0;
    const auto code_of = [&](size_t i) {
        const float scaled = (x[i] - from) * inverse + add;
        return static_cast<uint32_t>(std::min(kMost, static_cast<int>(static_cast<int8_t>(scaled))));
    };
    for (size_t j = 0; j < 16; ++j) {
        const uint32_t low = code_of(j), up = code_of(j + 16);
        q[j] = byte((low & 15u) | (up & 15u) << 4);
        high |= low >> 4 << j | up >> 4 << (j + 16);
    }
    if constexpr (kFive) std::memcpy(q - 4, &high, 4);
    return fits;
}

bool q8_0_block(const float* x, std::byte* b) {
    float most = 0;
    for (size_t i = 0; i < 32; ++i) most = std::max(most, std::fabs(x[i]));
    const float d = most / 127, inverse = inverse_of(d);
    for (size_t i = 0; i < 32; ++i)
        b[2 + i] = byte(static_cast<uint32_t>(static_cast<int>(std::roundf(x[i] * inverse))));
    return put_half(b, d);
}

/// The scales of Q4_K and Q5_K: the inverse of scale_min() in dequantise.cc.
void put_scale_mins(const std::array<float, 8>& c, const std::array<float, 8>& e, std::byte* s) {
    std::memset(s, 0, 12);
    for (size_t g = 0; g < 8; ++g) {
        const uint32_t scale = code(c[g]), min = code(e[g]);
        if (g < 4) {
            s[g] |= byte(scale);
            s[g + 4] |= byte(min);
        } else {
            s[g + 4] = byte((scale & 15u) | (min & 15u) << 4);
            s[g - 4] |= byte(scale >> 4 << 6);
            s[g] |= byte(min >> 4 << 6);
        }
    }
}

template <bool kFive>
bool k_block(const float* x, std::byte* b) {
    using Code = search::Unsigned<kFive ? 31 : 15>;
    const auto found = search::affine_block<Code, 8, 32>(x, 63);
    put_scale_mins(found.c, found.e, b + 4);
    std::byte* const high = b + 16;
    std::byte* const q = high + (kFive ? 32 : 0);
    if constexpr (kFive) std::memset(high, 0, 32);
    for (size_t g = 0; g < 8; g += 2) {
        for (size_t l = 0; l < 32; ++l) {
            const uint32_t low = code(found.codes[g * 32 + l]), up = code(found.codes[(g + 1) * 32 + l]);
            q[g / 2 * 32 + l] = byte((low & 15u) | (up & 15u) << 4);
            if constexpr (kFive) high[l] |= byte(low >> 4 << g | up >> 4 << (g + 1));
        }
    }
    const bool fits = put_half(b, found.d);
    return put_half(b + 2, found.dmin) && fits;
}

bool q2_k(const float* x, std::byte* b) {
    const auto found = search::affine_block<search::Unsigned<3>, 16, 16>(x, 15);
    std::memset(b + 16, 0, 64);
    for (size_t g = 0; g < 16; ++g) {
        b[g] = byte(code(found.c[g]) | code(found.e[g]) << 4);
        std::byte* const q = b + 16 + g / 8 * 32 + g % 2 * 16;
        for (size_t l = 0; l < 16; ++l) q[l] |= byte(code(found.codes[g * 16 + l]) << (g / 2 % 4 * 2));
    }
    const bool fits = put_half(b + 80, found.d);
    return put_half(b + 82, found.dmin) && fits;
}

bool q3_k(const float* x, std::byte* b) {
    const auto found = search::symmetric_block<search::Signed<4>, 16, 16>(x, -32);
    std::memset(b, 0, 108);
    for (size_t g = 0; g < 16; ++g) {
        const uint32_t scale = code(found.c[g] + 32);
        b[96 + g % 8] |= byte((scale & 15u) << (g < 8 ? 0 : 4));
        b[96 + 8 + g % 4] |= byte(scale >> 4 << (g / 4 * 2));
        std::byte *const q = b + 32 + g / 8 * 32 + g % 2 * 16, *const third = b + g % 2 * 16;
        for (size_t l = 0; l < 16; ++l) {
            const uint32_t v = code(found.codes[g * 16 + l] + 4);
            q[l] |= byte((v & 3u) << (g / 2 % 4 * 2));
            third[l] |= byte(v >> 2 << (g / 2));
        }
    }
    return put_half(b + 108, found.d);
}

bool q6_k(const float* x, std::byte* b) {
    const auto found = search::symmetric_block<search::Signed<32>, 16, 16>(x, -128);
    std::memset(b, 0, 192);
    for (size_t g = 0; g < 16; ++g) b[192 + g] = byte(code(found.c[g]));
    for (size_t i = 0; i < 256; ++i) {
        const size_t half = i / 128, run = i % 128 / 32, l = i % 32;
        const uint32_t v = code(found.codes[i] + 32);
        b[half * 64 + run % 2 * 32 + l] |= byte((v & 15u) << (run < 2 ? 0 : 4));
        b[128 + half * 32 + l] |= byte(v >> 4 << (2 * run));
    }
    return put_half(b + 208, found.d);
}

/// The nearest of kUnevenValues. Between neighbouring half numbers nothing changes, so a table holds it.
struct Uneven {
    static constexpr float kLow = -127, kHigh = 113;
    static size_t code_of(float x) {
        static const std::array<uint8_t, 512> table = [] {
            std::array<uint8_t, 512> codes{};
            for (size_t i = 0; i < codes.size(); ++i) {
                const float middle = (static_cast<float>(i) - 255.5F) / 2;
                const auto* const best = std::ranges::min_element(
                    kUnevenValues, {}, [&](int8_t v) { return std::fabs(static_cast<float>(v) - middle); });
                codes[i] = static_cast<uint8_t>(best - std::begin(kUnevenValues));
            }
            return codes;
        }();
        const float place = std::floor(2 * x) + 256;
        return table[place > 0 ? static_cast<size_t>(std::min(place, 511.0F)) : 0];
    }
    static float value(float x) { return static_cast<float>(kUnevenValues[code_of(x)]); }
};

void put_uneven(const float* values, std::byte* q) {
    for (size_t j = 0; j < 16; ++j) {
        q[j] = byte(static_cast<uint32_t>(Uneven::code_of(values[j]) | Uneven::code_of(values[j + 16]) << 4));
    }
}

bool iq4_nl(const float* x, std::byte* b) {
    const float d = search::fit_symmetric<Uneven, 32, true>(x);
    std::array<float, 32> values{};
    search::write_codes<Uneven, 32>(x, d, 0, values.data());
    put_uneven(values.data(), b + 2);
    return put_half(b, d);
}

bool iq4_xs(const float* x, std::byte* b) {
    const auto found = search::symmetric_block<Uneven, 8, 32>(x, -32);
    std::memset(b + 2, 0, 6);
    for (size_t g = 0; g < 8; ++g) {
        const uint32_t scale = code(found.c[g] + 32);
        b[2 + g / 4] |= byte(scale >> 4 << (g % 4 * 2));
        b[4 + g / 2] |= byte((scale & 15u) << (g % 2 * 4));
        put_uneven(found.codes.data() + g * 32, b + 8 + g * 16);
    }
    return put_half(b, found.d);
}

using Encoder = bool (*)(const float*, std::byte*);

Encoder encoder_of(StoredType type) {
    switch (type) {
        case StoredType::kQ4_0:
            return small_block<false, false>;
        case StoredType::kQ4_1:
            return small_block<false, true>;
        case StoredType::kQ5_0:
            return small_block<true, false>;
        case StoredType::kQ5_1:
            return small_block<true, true>;
        case StoredType::kQ8_0:
            return q8_0_block;
        case StoredType::kIQ4_NL:
            return iq4_nl;
        case StoredType::kQ2_K:
            return q2_k;
        case StoredType::kQ3_K:
            return q3_k;
        case StoredType::kQ4_K:
            return k_block<false>;
        case StoredType::kQ5_K:
            return k_block<true>;
        case StoredType::kQ6_K:
            return q6_k;
        case StoredType::kIQ4_XS:
            return iq4_xs;
        case StoredType::kMXFP4:
        case StoredType::kInt4:
        case StoredType::kFP8:
        case StoredType::kF32:
        case StoredType::kF16:
        case StoredType::kBF16:
            break;
    }
    return nullptr;
}

}  // namespace

bool can_quantise(StoredType type) {
    return encoder_of(type) != nullptr;
}

bool quantise(StoredType type, const float* values, int64_t n, std::byte* blocks) {
    const Encoder encode = encoder_of(type);
    const BlockLayout layout = layout_of(type);
    check(encode != nullptr && n % layout.elements == 0, "quantise: {} elements as {}", n, name_of(type));
    // 65,504 times the largest scale of a scale and the largest code (Q6_K) is less. Sums of squares fit f32.
    constexpr float kLargest = 3e8F;
    bool fits = std::all_of(values, values + n, [](float x) { return std::fabs(x) <= kLargest; });
    for (int64_t i = 0; fits && i < n; i += layout.elements, blocks += layout.bytes)
        fits = encode(values + i, blocks) && fits;
    return fits;
}

}  // namespace trireme
