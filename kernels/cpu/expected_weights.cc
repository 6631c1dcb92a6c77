/// Attention that the next tokens are expected to give, on the CPU. First an item is a (tile, KV head): query vectors
/// are scored against its keys, and give each key a mean and a variance. Then an item is a KV head: softmax over its
/// keys, and the norms of its values. Nothing depends on threads.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/ops.h"
#include "kernels/slot_rule.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/expected_weights.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/score-inl.h"
#include "kernels/cpu/softmax-inl.h"
// clang-format on

#ifndef TRIREME_KERNELS_CPU_EXPECTED_WEIGHTS_ONCE
#define TRIREME_KERNELS_CPU_EXPECTED_WEIGHTS_ONCE
namespace trireme {

/// A KV head, and the query heads [head_begin, head_begin + group) that read it. Query vector v is head
/// `head_begin + v % group` of row v / group. Slots [first, end) are in use.
struct ExpectedHead {
    const KvAccess* access;
    KvLayout layout;
    int64_t head, head_begin, group, first, end;
    Matrix<const float> q, angles;
    Matrix<float> weights;
};

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// sums[0] += s, sums[1] += s^2, for n scores; rows of scores and sums have room for another vector.
HWY_INLINE void add_moments(const float* s, int64_t n, float* first, float* second) {
    const F d;
    for (int64_t i = 0; i < n; i += kLanes) {
        const Vf x = hn::LoadU(d, s + i);
        hn::StoreU(hn::Add(hn::LoadU(d, first + i), x), d, first + i);
        hn::StoreU(hn::MulAdd(x, x, hn::LoadU(d, second + i)), d, second + i);
    }
}

/// Sets the weights of a tile's slots to m + s / 2, times log2(e): m is the mean of the slot's scores over all rows, s
/// their variance. Rows after the first are scored by their difference from it, so that squares do not cancel.
void expect_tile(const ExpectedHead& it, int64_t slot0, float* scratch) {
    const F d;
    const int64_t dim = it.layout.head_dim, stride = (dim + 15) / 16 * 16, vectors = it.q.rows * it.group;
    float* q = scratch;
    float* scores = q + kVectorBlock * stride;
    float* sums = scores + kVectorBlock * kScoreStride;  // [group, 3, kScoreStride]: first row, sum, sum of squares
    float* panels = sums + 3 * it.group * kScoreStride;
    const int64_t keys = std::min(kTileTokens, it.end - slot0);
    char* tile = it.access->tile(0, slot0 / kTileTokens);
    const bool rotated = it.angles.data != nullptr;
    with_kv_type(it.layout.k_type, [&](auto t) HWY_ATTR {
        const auto* blocks = it.access->key_blocks<decltype(t)>(tile, it.head);
        prepare_tile(blocks, keys, dim, from_row(it.angles, slot0), panels);
    });
    std::fill_n(sums, 3 * it.group * kScoreStride, 0.0F);
    const Vf scale = hn::Set(d, 1.0F / std::sqrt(static_cast<float>(dim)));
    for (int64_t begin = 0; begin < vectors; begin += kVectorBlock) {
        const int64_t count = std::min(kVectorBlock, vectors - begin);
        for (int64_t i = 0; i < count; ++i) {
            const int64_t row = (begin + i) / it.group, column = (it.head_begin + (begin + i) % it.group) * dim;
            const float *from = it.q.row(row) + column, *base = it.q.row(0) + column;
            map_row(from, q + i * stride, dim, [&](Vf x, int64_t e) HWY_ATTR {
                if (row == 0) return hn::Mul(x, scale);
                const Vf b = e + kLanes <= dim ? hn::LoadU(d, base + e) : load_n(d, base + e, dim - e);
                return hn::Mul(hn::Sub(x, b), scale);
            });
        }
        with_kv_type(it.layout.k_type, [&](auto t) HWY_ATTR {
            const auto* blocks = it.access->key_blocks<decltype(t)>(tile, it.head);
            score_tile(q, stride, count, blocks, keys, dim, rotated, panels, scores);
        });
        for (int64_t i = 0; i < count; ++i) {
            float* of_member = sums + (begin + i) % it.group * 3 * kScoreStride;
            const float* s = scores + i * kScoreStride;
            if ((begin + i) / it.group == 0) {
                std::copy_n(s, keys, of_member);
            } else {
                add_moments(s, keys, of_member + kScoreStride, of_member + 2 * kScoreStride);
            }
        }
    }
    const float share = 1.0F / static_cast<float>(it.q.rows);
    for (int64_t g = 0; g < it.group; ++g) {
        const float *base = sums + 3 * g * kScoreStride, *first = base + kScoreStride, *second = first + kScoreStride;
        float* to = it.weights.row(it.head_begin + g) + slot0;
        for (int64_t j = std::max(it.first - slot0, int64_t{0}); j < keys; ++j) {
            const float mean = first[j] * share;
            to[j] = expected_exponent(base[j], mean, second[j] * share);
        }
    }
}

/// Weights of a KV head's query heads: the softmax of the exponents, times the norms of the values.
void expect_head(const ExpectedHead& it, float* norms) {
    const F d;
    const int64_t dim = it.layout.head_dim, n = it.end - it.first;
    with_kv_type(it.layout.v_type, [&](auto t) HWY_ATTR {
        for (int64_t i = it.first; i < it.end; ++i) {
            char* tile = it.access->tile(0, i / kTileTokens);
            HWY_ALIGN float buffer[kMostHeadDim];
            const auto* v =
                readable_row(it.access->values<decltype(t)>(tile, it.head).row(i % kTileTokens), dim, buffer);
            Vf sum = hn::Zero(d);
            int64_t e = 0;
            for (; e + kLanes <= dim; e += kLanes) {
                const Vf x = load(d, v + e);
                sum = hn::MulAdd(x, x, sum);
            }
            if (e < dim) {
                const Vf x = load_n(d, v + e, dim - e);
                sum = hn::MulAdd(x, x, sum);
            }
            norms[i - it.first] = std::sqrt(sum_lanes(sum));
        }
    });
    for (int64_t g = 0; g < it.group; ++g) {
        float* w = it.weights.row(it.head_begin + g);
        std::fill_n(w, it.first, 0.0F);
        w += it.first;
        const float top = *std::max_element(w, w + n);
        double sum = 0;
        for (int64_t i = 0; i < n; i += 2 * kLanes) {
            HWY_ALIGN float buffer[2 * kLanes];
            const int64_t some = std::min(2 * kLanes, n - i);
            for (int64_t j = 0; j < some; ++j) buffer[j] = w[i + j] - top;
            std::fill(buffer + some, buffer + 2 * kLanes, -std::numeric_limits<float>::infinity());
            Vf x[2] = {hn::Load(d, buffer), hn::Load(d, buffer + kLanes)};
            exp2_negative(d, x);
            hn::Store(x[0], d, buffer);
            hn::Store(x[1], d, buffer + kLanes);
            for (int64_t j = 0; j < some; ++j) sum += static_cast<double>(w[i + j] = buffer[j]);
        }
        const auto share = static_cast<float>(1.0 / sum);
        for (int64_t i = 0; i < n; ++i) w[i] *= share * norms[i];
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(expect_tile);
HWY_EXPORT(expect_head);

namespace {

int64_t expected_floats(const KernelLimits& limits) {
    const int64_t stride = (limits.head_dim + 15) / 16 * 16;
    return kVectorBlock * (stride + kScoreStride) + 3 * limits.heads * kScoreStride + tile_panels(limits.head_dim);
}

}  // namespace

size_t expected_weights_scratch(const KernelLimits& limits, int threads) {
    return static_cast<size_t>(threads * expected_floats(limits)) * sizeof(float);
}

void expected_weights(const Tensor& weights, const Tensor& norms, const Tensor& q, const LayerKv& kv,
                      const Tensor& kv_of_head, const KernelLimits& limits, void* scratch) {
    const KvAccess access(kv);
    const Matrix<const int32_t> kv_head = kv_of_head.as<const int32_t>();
    const int64_t heads = kv_head.rows, slots = weights.cols(), tiles = tiles_for(slots);
    for (int64_t t = 0; t < tiles; ++t) access.check_tile(0, t * kTileTokens, "expected_weights");
    // Group i: the i-th run of query heads with one KV head.
    const auto group_of = [&](int64_t i) {
        int64_t begin = 0, end = 0;
        for (; i >= 0; --i) {
            begin = end;
            while (end < heads && *kv_head.row(end) == *kv_head.row(begin)) ++end;
        }
        const int64_t head = *kv_head.row(begin);
        return ExpectedHead{.access = &access,
                            .layout = kv.layout,
                            .head = head,
                            .head_begin = begin,
                            .group = end - begin,
                            .first = kv.begins ? *kv.begins.as<const int32_t>().row(head) : 0,
                            .end = slots,
                            .q = q.as<const float>(),
                            .angles = kv.angles ? kv.angles.as<const float>() : Matrix<const float>{},
                            .weights = weights.as<float>()};
    };
    int64_t count = 1;
    for (int64_t h = 1; h < heads; ++h) count += *kv_head.row(h) != *kv_head.row(h - 1) ? 1 : 0;
    for (int64_t i = 0; i < count; ++i) {
        const ExpectedHead group = group_of(i);
        check(group.first >= 0 && group.first < slots, "expected_weights: head {} begins at slot {} of {}", group.head,
              group.first, slots);
    }
    for_items(count * tiles, kTileTokens * q.cols(), [&](int64_t i, int thread) {
        const ExpectedHead group = group_of(i / tiles);
        const int64_t slot0 = i % tiles * kTileTokens;
        if (slot0 + kTileTokens <= group.first) return;
        HWY_DYNAMIC_DISPATCH(expect_tile)
        (group, slot0, static_cast<float*>(scratch) + thread * expected_floats(limits));
    });
    for_items(count, slots * kv.layout.head_dim, [&](int64_t i, int) {
        const ExpectedHead group = group_of(i);
        HWY_DYNAMIC_DISPATCH(expect_head)(group, norms.as<float>().row(group.head));
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
