#pragma once
/// SplitTile: the arithmetic of AttendSplit: tiles of 16 query vectors by steps of keys, on tensor cores.

#include <type_traits>

#include "kernels/cuda/split_vectors.h"

namespace trireme::gpu {

/// A block has kTiles tiles of 16 query vectors, the rows of an mma. A tile has kTeam warps: each scores 32 / kTeam
/// keys of a step, computes all weights of the tile, and adds up every kTeam-th group of eight elements of head_dim.
///
/// Scores and weights are as exact as in f32: queries and weights are sums of kParts numbers of type T. f16 has a small
/// range, so each query is scaled by a power of 2, and weights by 2^15. A step's products are added to zero, and the
/// sum to what was there: tensor cores truncate sums.
///
/// Fragments are as in the PTX ISA: lane 4 * group + quad holds rows group and group + 8 of its warp's tile.
template <class T, int kHeadDim, int kTiles>
struct SplitTile {
    static constexpr int kDim = kHeadDim;  // at most
    static constexpr int kThreads = 128, kWarps = kThreads / kWarp, kKeys = 32;
    static constexpr int kVectors = 16 * kTiles, kTeam = kWarps / kTiles;
    static constexpr bool kHalf = std::is_same_v<T, f16>;
    static constexpr int kParts = kHalf ? 2 : 3;  // of 11 or 8 bits
    static constexpr int kStride = kDim + 8;      // 16-bit words of a row; 8 rows of a matrix are in different banks
    static constexpr int kScoreStride = kKeys + 8;
    static constexpr int kGroups = kDim / 8 / kTeam;   // of eight elements, that a warp adds up
    static constexpr int kScored = kKeys / 8 / kTeam;  // groups of eight keys that a warp scores
    static constexpr int kBuffer = kKeys * kStride;
    static constexpr int kMostTiles = 8;  // of a split
    static constexpr float kWeightScale = kHalf ? 32768.0f : 1.0f;
    using Vectors = SplitVectors<kVectors, kThreads>;
    static constexpr int64_t kHalves = 4 * kBuffer + kParts * kVectors * kStride;  // of keys, values and queries
    static constexpr int64_t kFloats = kVectors * (kScoreStride + 1);              // of scores and factors
    static constexpr int64_t kSharedBytes = 2 * kHalves + 4 * kFloats + 8 * kMostTiles + Vectors::kBytes;
    static_assert(8 * sizeof(T) == sizeof(Bits16), "KV of 16 bits");
    static_assert(kWarps % kTiles == 0 && kTile % kKeys == 0, "a team of whole warps; keys of a step are in one tile");
    static_assert(kStride * 2 / 16 % 2 == 1, "8 rows of 16 bytes are in different banks");
    struct Shared {
        uint16_t *keys, *values;  // [buffer][key][kStride]
        uint16_t* queries;        // [part][vector][kStride]
        float* scores;            // [vector][kScoreStride]
        float* factors;           // [vector]: what a score is multiplied with; at the end, its maximum
        int* vectors;
        char** tiles;  // of the split
    };
    /// Running softmax of rows group and group + 8 of the warp's tile of vectors, where group is lane / 4.
    struct State {
        float max[2], sum[2];
        float acc[kGroups][4] = {};
    };

    template <class Gpu>
    TRIREME_GPU static Shared shared(Gpu& gpu) {
        Shared s;
        s.keys = static_cast<uint16_t*>(gpu.shared());
        s.values = s.keys + 2 * kBuffer;
        s.queries = s.values + 2 * kBuffer;
        s.scores = reinterpret_cast<float*>(s.queries + kParts * kVectors * kStride);
        s.factors = s.scores + kVectors * kScoreStride;
        s.tiles = reinterpret_cast<char**>(s.factors + kVectors);
        s.vectors = reinterpret_cast<int*>(s.tiles + kMostTiles);
        return s;
    }

    /// This warp's tile of vectors, and its number among the warps of that tile.
    template <class Gpu>
    TRIREME_GPU static int tile_of(Gpu& gpu) {
        return gpu.thread() / kWarp / kTeam;
    }
    template <class Gpu>
    TRIREME_GPU static int member(Gpu& gpu) {
        return gpu.thread() / kWarp % kTeam;
    }
    /// Whether this lane writes what its row's lanes have in common.
    template <class Gpu>
    TRIREME_GPU static bool leads(Gpu& gpu) {
        return gpu.thread() % 4 == 0 && member(gpu) == 0;
    }
    /// The vector that this lane has in row group + 8r; the first of its two elements of head_dim in group g.
    template <class Gpu>
    TRIREME_GPU static int vector_of(Gpu& gpu, int r) {
        return tile_of(gpu) * 16 + r * 8 + gpu.thread() % kWarp / 4;
    }
    template <class Gpu>
    TRIREME_GPU static int element_of_group(Gpu& gpu, int g) {
        return (g * kTeam + member(gpu)) * 8 + gpu.thread() % 4 * 2;
    }

    /// Returns the two elements, rounded to T, and subtracts them from x.
    TRIREME_GPU static uint32_t take_part(float (&x)[2]) {
        const uint32_t word = pack<T>(x[0], x[1]);
        T low, high;
        low.bits = static_cast<uint16_t>(word);
        high.bits = static_cast<uint16_t>(word >> 16);
        x[0] -= widen(low);
        x[1] -= widen(high);
        return word;
    }

    /// Splits the queries into parts in shared memory, zeros beyond `dim` and beyond `count`. A warp has a vector; a
    /// sync() follows. `scale` is the factor of scores, log2(e) included.
    template <class Gpu>
    TRIREME_GPU static void load_queries(Gpu& gpu, const Rows<const float>& all, float scale, int dim, const Vectors& v,
                                         const Shared& s) {
        const int lane = gpu.thread() % kWarp;
        constexpr int kPairs = (kDim + 2 * kWarp - 1) / (2 * kWarp);
        for (int i = gpu.thread() / kWarp; i < div_up(v.count, 16) * 16; i += kWarps) {
            float x[kPairs][2] = {};
            float top = 0;
            const float* q = i < v.count ? all(v.row_of(i)) + v.head_of(i) * dim : nullptr;
            for (int n = 0; n < kPairs; ++n) {
                const int at = 2 * (n * kWarp + lane);
                if (q == nullptr || at >= dim) continue;
                for (int e = 0; e < 2; ++e) {
                    x[n][e] = q[at + e] * scale;
                    top = fmaxf(top, fabsf(x[n][e]));
                }
            }
            const float factor = kHalf ? spread(warp_max(gpu, top)) : 1.0f;
            for (int n = 0; n < kPairs; ++n) {
                const int at = 2 * (n * kWarp + lane);
                for (float& e : x[n]) e *= factor;
                for (int part = 0; part < kParts && at < kDim; ++part) {
                    *reinterpret_cast<uint32_t*>(s.queries + (part * kVectors + i) * kStride + at) = take_part(x[n]);
                }
            }
            if (lane == 0) s.factors[i] = 1 / factor;
        }
    }
    /// Returns the power of 2 that brings x into [2^11, 2^12); 1 if x is far from 1.
    TRIREME_GPU static float spread(float x) {
        const int exponent = static_cast<int>(bits_of(x) >> 23) - 127;
        return exponent < -100 || exponent > 100 ? 1.0f : float_of(static_cast<uint32_t>(127 + 11 - exponent) << 23);
    }

    /// Scores this warp's keys for its tile of vectors.
    template <class Gpu>
    TRIREME_GPU static void score(Gpu& gpu, const Shared& s, const uint16_t* keys) {
        const int lane = gpu.thread() % kWarp, first = tile_of(gpu) * 16, group = member(gpu) * kScored;
        const uint16_t* key = keys + (group * 8 + lane % 8) * kStride + lane / 8 * 8;
        const uint16_t* query = s.queries + (first + lane % 16) * kStride + lane / 16 * 8;
        float sum[2][kScored][4] = {};  // of the queries' first part, and of the others: independent of each other
        TRIREME_UNROLL
        for (int d = 0; d < kDim / 32; ++d) {
            Bits16 right[kScored];
            TRIREME_UNROLL
            for (int n = 0; n < kScored; ++n) {
                right[n] = gpu.template load_matrices<false>(key + n * 8 * kStride + d * 32);
            }
            TRIREME_UNROLL
            for (int k = 0; k < 2; ++k) {
                TRIREME_UNROLL
                for (int part = 0; part < kParts; ++part) {
                    const Bits16 left =
                        gpu.template load_matrices<false>(query + part * kVectors * kStride + d * 32 + k * 16);
                    TRIREME_UNROLL
                    for (int n = 0; n < kScored; ++n) {
                        const uint32_t two[2] = {right[n].word[2 * k], right[n].word[2 * k + 1]};
                        gpu.template mma<T>(sum[part == 0 ? 0 : 1][n], left.word, two);
                    }
                }
            }
        }
        float* shared = s.scores + (first + lane / 4) * kScoreStride + group * 8 + lane % 4 * 2;
        TRIREME_UNROLL
        for (int n = 0; n < kScored; ++n) {
            TRIREME_UNROLL
            for (int i = 0; i < 4; ++i) {
                shared[i / 2 * 8 * kScoreStride + n * 8 + i % 2] = sum[0][n][i] + sum[1][n][i];
            }
        }
    }

    /// Turns the step's scores into weights, and adds the weighted values of this warp's elements. kMasked: some
    /// vectors do not see all keys.
    template <bool kMasked, class Gpu>
    TRIREME_GPU static void add_values(Gpu& gpu, const Vectors& v, const Shared& s, const SplitStep& step,
                                       const uint16_t* values, State& state) {
        const uint16_t* value = values + gpu.thread() % kWarp * kStride + member(gpu) * 8;
        uint32_t left[kParts][kKeys / 16][4];
        float shrink[2];
        TRIREME_UNROLL
        for (int r = 0; r < 2; ++r) {
            float weight[kKeys / 8][2];
            shrink[r] = weights<kMasked>(gpu, v, s, step, r, state, weight);
            TRIREME_UNROLL
            for (int n = 0; n < kKeys / 8; ++n) {
                TRIREME_UNROLL
                for (int part = 0; part < kParts; ++part) left[part][n / 2][n % 2 * 2 + r] = take_part(weight[n]);
            }
        }
        TRIREME_UNROLL
        for (int g = 0; g < kGroups; ++g) {
            // This group of elements: of keys 0 to 15, and 16 to 31.
            const Bits16 right = gpu.template load_matrices<true>(value + g * kTeam * 8);
            float sum[4] = {};
            TRIREME_UNROLL
            for (int k = 0; k < kKeys / 16; ++k) {
                const uint32_t two[2] = {right.word[2 * k], right.word[2 * k + 1]};
                TRIREME_UNROLL
                for (int part = 0; part < kParts; ++part) gpu.template mma<T>(sum, left[part][k], two);
            }
            TRIREME_UNROLL
            for (int i = 0; i < 4; ++i) state.acc[g][i] = fmaf(state.acc[g][i], shrink[i / 2], sum[i]);
        }
    }

    /// Computes the weights of row group + 8r for the step's keys 8n + 2 quad and the next, relative to the running
    /// maximum, which it raises. Returns the factor of what has been added before.
    template <bool kMasked, class Gpu>
    TRIREME_GPU static float weights(Gpu& gpu, const Vectors& v, const Shared& s, const SplitStep& step, int r,
                                     State& state, float (&weight)[kKeys / 8][2]) {
        const int quad = gpu.thread() % 4, i = vector_of(gpu, r);
        const float factor = s.factors[i];
        const float* score = s.scores + i * kScoreStride + quad * 2;
        const bool takes = kMasked && v.takes(i, step);
        const int begin = takes ? v.begin(i) - step.slot - quad * 2 : 0;  // of the keys seen, from this lane's first on
        const int end = takes ? v.end(i) - step.slot - quad * 2 : 0;
        float top = -infinity(), added = 0;
        TRIREME_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) {
            TRIREME_UNROLL
            for (int e = 0; e < 2; ++e) {
                weight[n][e] = score[n * 8 + e];
                if (kMasked && (n * 8 + e < begin || n * 8 + e >= end)) weight[n][e] = -infinity();
                top = fmaxf(top, weight[n][e]);
            }
        }
        top = fmaxf(top, gpu.shuffle_xor(top, 1));
        top = fmaxf(top, gpu.shuffle_xor(top, 2));
        top = fmaxf(state.max[r], top * factor);
        const float base = top == -infinity() ? 0.0f : top;  // of a vector that has seen nothing
        const float shrink = gpu.power_of_2(state.max[r] - base);
        TRIREME_UNROLL
        for (int n = 0; n < kKeys / 8; ++n) {
            TRIREME_UNROLL
            for (int e = 0; e < 2; ++e) {
                const float power = gpu.power_of_2(fmaf(weight[n][e], factor, -base));
                added += power;
                weight[n][e] = power * kWeightScale;
            }
        }
        added += gpu.shuffle_xor(added, 1);
        added += gpu.shuffle_xor(added, 2);
        state.max[r] = top;
        state.sum[r] = fmaf(state.sum[r], shrink, added);
        return shrink;
    }
};

}  // namespace trireme::gpu
