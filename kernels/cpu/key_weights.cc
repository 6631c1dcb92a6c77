/// Attention weights per key of a prefill, on the CPU: blocks of query vectors are scored against one tile's keys. An
/// item is a (tile, KV head). It owns the sums of its keys, so the order of additions does not depend on threads.

#include <atomic>
#include <cmath>

#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/key_weights.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/score-inl.h"
#include "kernels/cpu/softmax-inl.h"
// clang-format on

#ifndef TRIREME_KERNELS_CPU_KEY_WEIGHTS_ONCE
#define TRIREME_KERNELS_CPU_KEY_WEIGHTS_ONCE
namespace trireme {

/// A tile of a KV head, and the query vectors that may see it: vector v is head `head_begin + v % group` of row
/// v / group.
struct WeightsItem {
    const KvAccess* access;
    KvLayout layout;
    char* tile;
    int64_t head, head_begin, group, vectors;
    int64_t slot0, first;  // the tile's first slot; the first slot that is seen
    const int32_t* slots;
    Matrix<const float> q, totals, angles;
    Matrix<float> sums;
};

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// sum += 2^(s - max) / total, for n scores.
HWY_INLINE void add_weights(const float* s, int64_t n, float max, float total, float* sum) {
    const F d;
    const Vf top = hn::Set(d, max), share = hn::Set(d, 1.0F / total);
    for (int64_t i = 0; i < n; i += 2 * kLanes) {  // rows of scores and sums have room for two more vectors
        Vf x[2] = {hn::Sub(hn::LoadU(d, s + i), top), hn::Sub(hn::LoadU(d, s + i + kLanes), top)};
        exp2_negative(d, x);
        for (int64_t j = 0; j < 2; ++j) {
            float* at = sum + i + j * kLanes;
            hn::StoreU(hn::MulAdd(x[j], share, hn::LoadU(d, at)), d, at);
        }
    }
}

void weigh_tile(const WeightsItem& it, float* scratch) {
    const F d;
    const int64_t dim = it.layout.head_dim, stride = (dim + 15) / 16 * 16;
    float* q = scratch;
    float* scores = q + kVectorBlock * stride;
    float* sums = scores + kVectorBlock * kScoreStride;  // [group, kScoreStride]
    float* panels = sums + it.group * kScoreStride;
    const int64_t last = it.slots[(it.vectors - 1) / it.group];
    const int64_t keys = std::min(kTileTokens, last - it.slot0 + 1);
    const bool rotated = it.angles.data != nullptr;
    with_kv_type(it.layout.k_type, [&](auto t) HWY_ATTR {
        const auto* blocks = it.access->key_blocks<decltype(t)>(it.tile, it.head);
        prepare_tile(blocks, keys, dim, from_row(it.angles, it.slot0), panels);
    });
    std::fill_n(sums, it.group * kScoreStride, 0.0F);
    const Vf scale = hn::Set(d, kLog2E / std::sqrt(static_cast<float>(dim)));
    for (int64_t begin = 0; begin < it.vectors; begin += kVectorBlock) {
        const int64_t count = std::min(kVectorBlock, it.vectors - begin);
        if (it.slots[(begin + count - 1) / it.group] < it.slot0) continue;  // these rows end before this tile
        for (int64_t i = 0; i < count; ++i) {
            const float* from = it.q.row((begin + i) / it.group) + (it.head_begin + (begin + i) % it.group) * dim;
            map_row(from, q + i * stride, dim, [&](Vf x, int64_t) HWY_ATTR { return hn::Mul(x, scale); });
        }
        with_kv_type(it.layout.k_type, [&](auto t) HWY_ATTR {
            const auto* blocks = it.access->key_blocks<decltype(t)>(it.tile, it.head);
            score_tile(q, stride, count, blocks, keys, dim, rotated, panels, scores);
        });
        for (int64_t i = 0; i < count; ++i) {
            const int64_t row = (begin + i) / it.group, member = (begin + i) % it.group;
            const int64_t seen = std::min(kTileTokens, it.slots[row] - it.slot0 + 1);
            if (seen <= 0 || it.slots[row] < it.first) continue;
            float* s = scores + i * kScoreStride;
            const Vf none = hn::Set(d, -std::numeric_limits<float>::infinity());
            for (int64_t j = 0; j < 2; ++j) hn::StoreU(none, d, s + seen + j * kLanes);
            const float* total = it.totals.row(row) + 2 * (it.head_begin + member);
            add_weights(s, seen, total[0], total[1], sums + member * kScoreStride);
        }
    }
    const int64_t unseen = std::clamp(it.first - it.slot0, int64_t{0}, keys);
    for (int64_t g = 0; g < it.group; ++g) {
        float* to = it.sums.row(it.head_begin + g) + it.slot0;
        for (int64_t j = unseen; j < keys; ++j) to[j] += sums[g * kScoreStride + j];
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(weigh_tile);

namespace {

int64_t weights_floats(const KernelLimits& limits) {
    const int64_t stride = (limits.head_dim + 15) / 16 * 16;
    return kVectorBlock * (stride + kScoreStride) + limits.heads * kScoreStride + tile_panels(limits.head_dim);
}

}  // namespace

size_t key_weights_scratch(const KernelLimits& limits, int threads) {
    return static_cast<size_t>(threads * weights_floats(limits)) * sizeof(float);
}

void key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv, const Tensor& kv_of_head,
                 const RowsView& rows, const KernelLimits& limits, void* scratch) {
    const KvAccess access(kv);
    const Matrix<const int32_t> kv_head = kv_of_head.as<const int32_t>(), slots = rows.slots.as<const int32_t>();
    const int64_t heads = kv_head.rows, sequence = *rows.sequences.as<const int32_t>().row(0);
    const int64_t tiles = tiles_for(*slots.row(q.rows() - 1) + 1);
    check(*slots.row(q.rows() - 1) < sums.cols(), "key_weights: slot {} of {}", *slots.row(q.rows() - 1), sums.cols());
    for (int64_t t = 0; t < tiles; ++t) access.check_tile(sequence, t * kTileTokens, "key_weights");
    std::atomic<int64_t> taken{0};
    parallel([&](int thread, int) {
        float* mine = static_cast<float*>(scratch) + thread * weights_floats(limits);
        int64_t before = 0, wanted = taken.fetch_add(1);
        for (int64_t begin = 0, end = 0; begin < heads; begin = end, before += tiles) {
            while (end < heads && *kv_head.row(end) == *kv_head.row(begin)) ++end;
            const int64_t head = *kv_head.row(begin);
            const int64_t first = kv.begins ? *kv.begins.as<const int32_t>().row(head) : 0;
            for (; wanted < before + tiles; wanted = taken.fetch_add(1)) {
                const int64_t t = wanted - before;
                if ((t + 1) * kTileTokens <= first) continue;
                HWY_DYNAMIC_DISPATCH(weigh_tile)
                (WeightsItem{.access = &access,
                             .layout = kv.layout,
                             .tile = access.tile(sequence, t),
                             .head = head,
                             .head_begin = begin,
                             .group = end - begin,
                             .vectors = q.rows() * (end - begin),
                             .slot0 = t * kTileTokens,
                             .first = first,
                             .slots = slots.data,
                             .q = q.as<const float>(),
                             .totals = totals.as<const float>(),
                             .angles = kv.angles ? kv.angles.as<const float>() : Matrix<const float>{},
                             .sums = sums.as<float>()},
                 mine);
            }
        }
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
