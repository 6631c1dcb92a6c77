#pragma once
/// Search for the scales of blocks with scales of scales (Q2_K to Q6_K, IQ4_XS), and of IQ4_NL. Groups of N values are
/// x = s q - m (affine) or x = s q (symmetric), with s = d c and m = dmin e: c and e are whole numbers of few bits, d
/// and dmin are f16.
///
/// 1. For each group alone: from several first scales, codes by rounding, then s and m by least squares.
/// 2. d and dmin from the largest s and m; for each group the best of nine pairs (c, e), or of three c.
/// 3. d and dmin by least squares for these codes; step 2 again. The better result is kept.
///
/// llama.cpp's quantisers do step 1 with other weights, and step 2 without a search.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "runtime/dtype.h"

namespace trireme::search {

/// Rounds to the nearest whole number, ties to even; |x| is below 2^22.
inline float nearest(float x) {
    constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23
    return (x + kMagic) - kMagic;
}
inline float as_half(float x) {
    return static_cast<float>(f16(x));
}

/// Codes 0 to kMost.
template <int kMost>
struct Unsigned {
    static constexpr float kLow = 0, kHigh = kMost;
    static float value(float x) { return std::min(std::max(nearest(x), kLow), kHigh); }
};
/// Codes -kMost to kMost - 1.
template <int kMost>
struct Signed {
    static constexpr float kLow = -kMost, kHigh = kMost - 1;
    static float value(float x) { return std::min(std::max(nearest(x), kLow), kHigh); }
};

/// Sums over a group's values and codes that least squares needs.
struct Sums {
    float q = 0, qq = 0, xq = 0;
};

/// The loops over a group keep eight partial sums, so that they are vectors without a change of rounding.
inline constexpr size_t kLanes = 8;

template <class Code, size_t N>
Sums sums(const float* x, float inverse, float min) {
    std::array<float, kLanes> q{}, qq{}, xq{};
    for (size_t i = 0; i < N; i += kLanes) {
        for (size_t l = 0; l < kLanes; ++l) {
            const float code = Code::value((x[i + l] + min) * inverse);
            q[l] += code;
            qq[l] += code * code;
            xq[l] += x[i + l] * code;
        }
    }
    Sums all;
    for (size_t l = 0; l < kLanes; ++l) {
        all.q += q[l];
        all.qq += qq[l];
        all.xq += xq[l];
    }
    return all;
}

/// The sum of squared errors with scale and minimum (x = scale q - min), codes by rounding.
template <class Code, size_t N>
float error(const float* x, float scale, float min) {
    const float inverse = scale == 0 ? 0 : 1 / scale;
    std::array<float, kLanes> all{};
    for (size_t i = 0; i < N; i += kLanes) {
        for (size_t l = 0; l < kLanes; ++l) {
            const float code = Code::value((x[i + l] + min) * inverse);
            const float off = scale * code - min - x[i + l];
            all[l] += off * off;
        }
    }
    float sum = 0;
    for (const float part : all) sum += part;
    return sum;
}

template <class Code, size_t N>
void write_codes(const float* x, float scale, float min, float* codes) {
    const float inverse = scale == 0 ? 0 : 1 / scale;
    for (size_t i = 0; i < N; ++i) codes[i] = Code::value((x[i] + min) * inverse);
}

/// Groups whose values are all smaller are zeros: f16 rounds their scale to 0, and quotients would overflow.
inline constexpr float kSmallest = 1e-30F;

struct Affine {
    float scale = 0, min = 0;  // min >= 0
};

/// Step 1 for x = scale q - min.
template <class Code, size_t N>
Affine fit_affine(const float* x) {
    const float low = std::min(0.0F, *std::min_element(x, x + N)), high = *std::max_element(x, x + N);
    if (high - low < kSmallest) return {0, -low < kSmallest ? 0 : -low};
    Affine best{(high - low) / Code::kHigh, -low};
    float least = error<Code, N>(x, best.scale, best.min);
    float total = 0;
    for (size_t i = 0; i < N; ++i) total += x[i];
    constexpr int kStarts = 5;
    for (int start = 0; start < kStarts; ++start) {
        // First scales that let the outermost values be cut off, and ones that do not use all codes.
        Affine at{(high - low) / (Code::kHigh - 1.0F + 0.4F * static_cast<float>(start)), -low};
        for (int turn = 0; turn < 2; ++turn) {
            const Sums s = sums<Code, N>(x, 1 / at.scale, at.min);
            const float det = static_cast<float>(N) * s.qq - s.q * s.q;
            if (!(det > 0)) break;
            at.scale = (static_cast<float>(N) * s.xq - total * s.q) / det;
            at.min = (s.q * s.xq - s.qq * total) / det;
            if (at.min < 0) {
                at.min = 0;
                at.scale = s.qq > 0 ? s.xq / s.qq : 0;
            }
            if (!(at.scale > 0)) break;
            if (const float e = error<Code, N>(x, at.scale, at.min); e < least) {
                least = e;
                best = at;
            }
        }
    }
    return best;
}

/// Step 1 for x = scale q; the scale may be negative. `kHalf`: the scale is f16, infinite if it
/// is beyond that.
template <class Code, size_t N, bool kHalf = false>
float fit_symmetric(const float* x) {
    const float extreme = *std::max_element(x, x + N, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    if (std::fabs(extreme) < kSmallest) return 0;
    float best = 0, least = std::numeric_limits<float>::infinity();
    constexpr int kStarts = 6;
    for (int start = 0; start < 2 * kStarts; ++start) {
        const float end = start < kStarts ? Code::kLow : Code::kHigh;
        const float step = std::fabs(end) * 0.04F + 0.16F;
        float inverse = (end + std::copysign(step, end) * (static_cast<float>(start % kStarts) - 4)) / extreme;
        for (int turn = 0; turn < 2; ++turn) {
            const Sums s = sums<Code, N>(x, inverse, 0);
            if (!(s.qq > 0)) break;
            const float scale = kHalf ? as_half(s.xq / s.qq) : s.xq / s.qq;
            if (!std::isfinite(scale)) return scale;
            if (scale == 0) break;
            if (const float e = error<Code, N>(x, scale, 0); e < least) {
                least = e;
                best = scale;
            }
            inverse = 1 / scale;
        }
    }
    return best;
}

/// The result for a block of G groups of N values. c and e are the whole numbers of scales and minima.
template <size_t G, size_t N>
struct AffineBlock {
    float d = 0, dmin = 0, error = std::numeric_limits<float>::infinity();
    std::array<float, G> c{}, e{};
    std::array<float, G * N> codes{};
};

/// Steps 2 and 3. `most`: the largest c and e. If d or dmin is beyond f16, it is infinite and nothing else counts.
template <class Code, size_t G, size_t N>
AffineBlock<G, N> affine_block(const float* x, float most) {
    std::array<Affine, G> fit;
    float scale = 0, min = 0;
    for (size_t g = 0; g < G; ++g) {
        fit[g] = fit_affine<Code, N>(x + g * N);
        scale = std::max(scale, fit[g].scale);
        min = std::max(min, fit[g].min);
    }
    AffineBlock<G, N> best;
    float d = as_half(scale / most), dmin = as_half(min / most);
    best.d = d;
    best.dmin = dmin;
    if (!std::isfinite(d) || !std::isfinite(dmin)) return best;
    for (int turn = 0; turn < 2; ++turn) {
        AffineBlock<G, N> now;
        now.d = d;
        now.dmin = dmin;
        now.error = 0;
        for (size_t g = 0; g < G; ++g) {
            const float c0 = d > 0 ? nearest(std::min(fit[g].scale / d, most)) : 0;
            const float e0 = dmin > 0 ? nearest(std::min(fit[g].min / dmin, most)) : 0;
            float least = std::numeric_limits<float>::infinity();
            for (float c = std::max(0.0F, c0 - 1); c <= std::min(most, c0 + 1); ++c) {
                for (float e = std::max(0.0F, e0 - 1); e <= std::min(most, e0 + 1); ++e) {
                    const float off = error<Code, N>(x + g * N, d * c, dmin * e);
                    if (off >= least) continue;
                    least = off;
                    now.c[g] = c;
                    now.e[g] = e;
                }
            }
            now.error += least;
            write_codes<Code, N>(x + g * N, d * now.c[g], dmin * now.e[g], now.codes.data() + g * N);
        }
        if (now.error < best.error) best = now;
        // x = d (c q) - dmin e over the block.
        double aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
        for (size_t i = 0; i < G * N; ++i) {
            const double a = static_cast<double>(now.c[i / N]) * static_cast<double>(now.codes[i]);
            const auto b = static_cast<double>(now.e[i / N]), v = static_cast<double>(x[i]);
            aa += a * a;
            ab += a * b;
            bb += b * b;
            xa += v * a;
            xb += v * b;
        }
        const double det = aa * bb - ab * ab;
        if (det > 0) {
            d = as_half(static_cast<float>((xa * bb - xb * ab) / det));
            dmin = as_half(static_cast<float>((xa * ab - xb * aa) / det));
        } else {
            d = aa > 0 ? as_half(static_cast<float>(xa / aa)) : 0;
        }
        if (!(d > 0) || dmin < 0 || !std::isfinite(d) || !std::isfinite(dmin)) break;
    }
    return best;
}

template <size_t G, size_t N>
struct SymmetricBlock {
    float d = 0, error = std::numeric_limits<float>::infinity();
    std::array<float, G> c{};
    std::array<float, G * N> codes{};
};

/// Steps 2 and 3 for x = d c q, d as above. `least_c`: the smallest c; the largest one is -least_c - 1.
template <class Code, size_t G, size_t N>
SymmetricBlock<G, N> symmetric_block(const float* x, float least_c) {
    std::array<float, G> fit;
    for (size_t g = 0; g < G; ++g) fit[g] = fit_symmetric<Code, N>(x + g * N);
    const float extreme =
        *std::max_element(fit.begin(), fit.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    SymmetricBlock<G, N> best;
    best.d = as_half(extreme / least_c);
    if (!std::isfinite(best.d)) return best;
    std::array<float, 4> tried;  // several first d, for the sake of their rounding to f16; then the refined one
    for (size_t i = 0; i < 3; ++i) tried[i] = as_half(extreme / (least_c + static_cast<float>(i)));
    for (size_t turn = 0; turn < tried.size(); ++turn) {
        const float d = tried[turn];
        if (!std::isfinite(d)) break;
        SymmetricBlock<G, N> now;
        now.d = d;
        now.error = 0;
        for (size_t g = 0; g < G; ++g) {
            const float c0 = d == 0 ? 0 : nearest(std::clamp(fit[g] / d, least_c, -least_c - 1));
            float least = std::numeric_limits<float>::infinity();
            for (float c = std::max(least_c, c0 - 1); c <= std::min(-least_c - 1, c0 + 1); ++c) {
                const float off = error<Code, N>(x + g * N, d * c, 0);
                if (off >= least) continue;
                least = off;
                now.c[g] = c;
            }
            now.error += least;
            write_codes<Code, N>(x + g * N, d * now.c[g], 0, now.codes.data() + g * N);
        }
        if (now.error < best.error) best = now;
        double aa = 0, xa = 0;
        for (size_t i = 0; i < G * N; ++i) {
            const double a = static_cast<double>(best.c[i / N]) * static_cast<double>(best.codes[i]);
            aa += a * a;
            xa += static_cast<double>(x[i]) * a;
        }
        if (!(aa > 0)) break;
        tried.back() = as_half(static_cast<float>(xa / aa));
    }
    return best;
}

}  // namespace trireme::search
