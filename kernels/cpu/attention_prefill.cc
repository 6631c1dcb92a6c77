/// Causal attention of a prefill batch. An item is a block of query vectors of one KV head. It walks the tiles in
/// order; each is two packed multiplies with a softmax between, merged into the block's running result.

#include <atomic>
#include <cmath>

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/kv_access.h"
#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_prefill.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/pair_gemm-inl.h"
#include "kernels/cpu/score-inl.h"
#include "kernels/cpu/softmax-inl.h"
// clang-format on

#ifndef TRIREME_KERNELS_CPU_ATTENTION_PREFILL_ONCE
#define TRIREME_KERNELS_CPU_ATTENTION_PREFILL_ONCE
namespace trireme {

inline constexpr int64_t kQueryBlock = 96;  // 16 register tiles; packing K and V costs 4 % of the multiplies
static_assert(kQueryBlock % 6 == 0, "register tiles have 6 rows");
static_assert(kScoreStride >= kTileTokens + 16, "weigh_pairs writes a zero after the last score, and whole vectors");

/// A block of query vectors: vector v is head `head_begin + v % group` of row v / group.
struct PrefillItem {
    const KvAccess* access;
    KvLayout layout;
    int64_t sequence, head;     // KV head
    int64_t head_begin, group;  // its query heads
    int64_t begin, end;         // query vectors
    const int32_t* slots;       // [rows]
    int64_t first;              // the first slot that the head's queries see
    int64_t window;             // RowsView's
    Matrix<const float> q;
    Matrix<float> out;
    Matrix<const float> angles;  // keys are rotated by their slots, or null
    Matrix<float> totals;        // AttentionReport, or null
};

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

/// out [rows, dim] = p values. Heads that are not whole vectors are copied first, so that no read leaves the tile;
/// q8_0 is widened once for all rows.
template <class T>
void accumulate_values(const float* p, int64_t rows, const HeadRows<T>& values, int64_t count, int64_t dim,
                       void* panels, float* out, int64_t stride) {
    if constexpr (std::is_same_v<T, q8_0>) {
        float* wide = static_cast<float*>(panels);
        for (int64_t i = 0; i < count; ++i) widen_row(values.row(i), dim, wide + i * stride);
        multiply<false>(p, kScoreStride, rows, Strip<float>{wide, stride, count}, out, stride, dim, kTall);
    } else if (dim % kLanes == 0) {
        const Strip<T> strip{values.first, values.stride, count};
        multiply<false>(p, kScoreStride, rows, strip, out, stride, dim, kTall);
    } else {
        T* copy = static_cast<T*>(panels);
        for (int64_t i = 0; i < count; ++i) copy_row(values.row(i), dim, copy + i * stride, stride);
        multiply<false>(p, kScoreStride, rows, Strip<T>{copy, stride, count}, out, stride, dim, kTall);
    }
}

#if TRIREME_PAIRS
/// Like accumulate_values, with dot products of pairs, for slots [unseen, keys).
void weigh_pairs(float* p, int64_t unseen, int64_t rows, const HeadRows<bf16>& values, int64_t keys, int64_t dim,
                 float* out, int64_t stride) {
    for (int64_t r = 0; r < rows; ++r) {
        float* row = p + r * kScoreStride;
        row[keys] = 0;  // follows an odd number of keys
        round_in_place(row, (keys + 1 + kLanes - 1) / kLanes * kLanes);
        std::fill_n(out + r * stride, dim, 0.0F);
    }
    pair_weigh(reinterpret_cast<const bf16*>(p) + unseen, 2 * kScoreStride, rows,
               PairRows{values.row(unseen), values.stride, keys - unseen, 0}, out, stride, dim);
}
#endif

void attend_block(const PrefillItem& it, float* scratch) {
    const F d;
    const int64_t dim = it.layout.head_dim, stride = (dim + 15) / 16 * 16, count = it.end - it.begin;
    float* q = scratch;                                   // [count, dim], scaled
    float* scores = q + kQueryBlock * stride;             // [count, kScoreStride]
    float* panels = scores + kQueryBlock * kScoreStride;  // [tile_panels]
    float* fresh = panels + tile_panels(dim);             // [count, stride]
    float* running = fresh + kQueryBlock * stride;
    float max[kQueryBlock], sum[kQueryBlock];

    const Vf scale = hn::Set(d, kLog2E / std::sqrt(static_cast<float>(dim)));
    for (int64_t i = 0; i < count; ++i) {
        const int64_t v = it.begin + i;
        const float* from = it.q.row(v / it.group) + (it.head_begin + v % it.group) * dim;
        map_row(from, q + i * stride, dim, [&](Vf x, int64_t) HWY_ATTR { return hn::Mul(x, scale); });
        max[i] = -std::numeric_limits<float>::infinity();
        sum[i] = 0;
        std::fill(running + i * stride, running + (i + 1) * stride, 0.0f);
        std::fill(fresh + i * stride, fresh + (i + 1) * stride, 0.0f);
    }

    [[maybe_unused]] const bool pairs = it.angles.data == nullptr && attends_pairs(it.layout);
    for (int64_t i = 0; i < count && pairs; ++i) round_in_place(q + i * stride, stride);

    const int64_t last = it.slots[(it.end - 1) / it.group];  // rows have consecutive slots
    const auto begin_of = [&](int64_t i) {                   // the first slot that a query vector sees
        return std::max(it.first, it.slots[(it.begin + i) / it.group] + 1 - it.window);
    };
    const int64_t begin = begin_of(0);
    for (int64_t first = begin / kTileTokens * kTileTokens; first <= last; first += kTileTokens) {
        char* tile = it.access->tile(it.sequence, first / kTileTokens);
        const int64_t keys = std::min(kTileTokens, last - first + 1);
        with_kv_type(it.layout.k_type, [&](auto t) HWY_ATTR {
            const auto* blocks = it.access->key_blocks<decltype(t)>(tile, it.head);
            const bool rotated = it.angles.data != nullptr;
#if TRIREME_PAIRS
            if constexpr (std::is_same_v<decltype(t), bf16>) {
                if (pairs) {
                    return pair_multiply_keys(reinterpret_cast<const bf16*>(q), 2 * stride, count, blocks, keys, dim,
                                              scores, kScoreStride, nullptr);
                }
            }
#endif
            prepare_tile(blocks, keys, dim, from_row(it.angles, first), panels);
            score_tile(q, stride, count, blocks, keys, dim, rotated, panels, scores);
        });
        const int64_t unseen = std::clamp(begin - first, int64_t{0}, keys);
        for (int64_t i = 0; i < count; ++i) {
            const int64_t not_seen = std::clamp(begin_of(i) - first, int64_t{0}, keys);
            std::fill_n(scores + i * kScoreStride, not_seen, -std::numeric_limits<float>::infinity());
        }
        float tile_max[kQueryBlock], tile_sum[kQueryBlock];
        // Two passes: the exponentials of a row need not wait for its maximum.
        const auto visible = [&](int64_t i) {
            return std::clamp(it.slots[(it.begin + i) / it.group] - first + 1, int64_t{0}, keys);
        };
        for (int64_t i = 0; i < count; ++i) tile_max[i] = row_max(scores + i * kScoreStride, visible(i));
        for (int64_t i = 0; i < count; ++i) {
            float* s = scores + i * kScoreStride;
            tile_sum[i] = exp_row(s, visible(i), tile_max[i]);
            for (int64_t j = visible(i); j < keys; ++j) s[j] = 0;
        }
        with_kv_type(it.layout.v_type, [&](auto t) HWY_ATTR {
            // Values that are not seen may be NaN, which a weight of zero does not cancel.
            const HeadRows<decltype(t)> values = it.access->values<decltype(t)>(tile, it.head);
#if TRIREME_PAIRS
            if constexpr (std::is_same_v<decltype(t), bf16>) {
                if (pairs) return weigh_pairs(scores, unseen, count, values, keys, dim, fresh, stride);
            }
#endif
            accumulate_values(scores + unseen, count, HeadRows<decltype(t)>{values.row(unseen), values.stride},
                              keys - unseen, dim, panels, fresh, stride);
        });
        for (int64_t i = 0; i < count; ++i) {
            const int64_t last_seen = it.slots[(it.begin + i) / it.group], first_seen = begin_of(i);
            // The row sees nothing of this tile.
            if (last_seen < std::max(first, first_seen) || first_seen >= first + keys) continue;
            merge_tile(max[i], sum[i], running + i * stride, tile_max[i], tile_sum[i], fresh + i * stride, stride);
        }
    }

    for (int64_t i = 0; i < count; ++i) {
        const int64_t v = it.begin + i;
        float* to = it.out.row(v / it.group) + (it.head_begin + v % it.group) * dim;
        if (it.totals.data != nullptr) {
            float* of_head = it.totals.row(v / it.group) + 2 * (it.head_begin + v % it.group);
            of_head[0] = max[i];
            of_head[1] = sum[i];
        }
        const Vf total = hn::Set(d, sum[i] > 0 ? sum[i] : 1.0F);  // a row without visible keys outputs zeros
        map_row(running + i * stride, to, dim, [&](Vf x, int64_t) HWY_ATTR { return hn::Div(x, total); });
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(attend_block);

namespace {

int64_t thread_floats(int64_t dim) {
    const int64_t stride = (dim + 15) / 16 * 16;
    return kQueryBlock * (3 * stride + kScoreStride) + tile_panels(dim);
}

}  // namespace

size_t attention_prefill_scratch(const KernelLimits& limits, int threads) {
    return static_cast<size_t>(threads * thread_floats(limits.head_dim)) * sizeof(float);
}

void attention_prefill(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                       const RowsView& rows, const AttentionReport& report, void* scratch) {
    const KvAccess access(kv);
    const Matrix<const int32_t> kv_head = kv_of_head.as<const int32_t>();
    const Matrix<const int32_t> slots = rows.slots.as<const int32_t>();
    const int64_t n = q.rows(), heads = kv_head.rows, sequence = *rows.sequences.as<const int32_t>().row(0);
    for (int64_t r = 0; r < n; ++r) {
        check(*slots.row(r) == *slots.row(0) + r && *slots.row(r) < rows.max_slots,
              "attention: prefill rows 0 and {} stand at {} and {}, below {}", r, *slots.row(0), *slots.row(r),
              rows.max_slots);
    }
    for (int64_t p = 0; p <= *slots.row(n - 1); p += kTileTokens) access.check_tile(sequence, p, "attention");
    for (int64_t h = 0; h < heads; ++h) {
        check(*kv_head.row(h) >= 0 && *kv_head.row(h) < kv.layout.kv_heads,
              "attention: query head {} reads KV head {} of {}", h, *kv_head.row(h), kv.layout.kv_heads);
        const int64_t begin = kv.begins ? *kv.begins.as<const int32_t>().row(*kv_head.row(h)) : 0;
        check(begin >= 0 && (begin == 0 || begin <= *slots.row(0) + 1),
              "attention: a row stands at {}, its head begins at slot {}", *slots.row(0), begin);
    }
    check(!kv.angles || *slots.row(n - 1) < kv.angles.rows(), "attention: a key stands at {}, there are angles for {}",
          *slots.row(n - 1), kv.angles.rows());

    const Matrix<const float> in = q.as<const float>();
    const Matrix<const float> angles = kv.angles ? kv.angles.as<const float>() : Matrix<const float>{};
    const Matrix<float> o = out.as<float>(), totals = report ? report.totals.as<float>() : Matrix<float>{};
    // Items in order: the blocks of the first run of heads, of the next, ...; a free thread takes the next item.
    std::atomic<int64_t> taken{0};
    parallel([&](int thread, int) {
        float* mine = static_cast<float*>(scratch) + thread * thread_floats(kv.layout.head_dim);
        int64_t before = 0, wanted = taken.fetch_add(1);
        for (int64_t begin = 0, end = 0; begin < heads; begin = end) {
            while (end < heads && *kv_head.row(end) == *kv_head.row(begin)) ++end;
            const int64_t group = end - begin, vectors = n * group;
            const int64_t blocks = (vectors + kQueryBlock - 1) / kQueryBlock;
            for (; wanted < before + blocks; wanted = taken.fetch_add(1)) {
                const int64_t first = (wanted - before) * kQueryBlock;
                const int64_t head = *kv_head.row(begin);
                const PrefillItem item{.access = &access,
                                       .layout = kv.layout,
                                       .sequence = sequence,
                                       .head = head,
                                       .head_begin = begin,
                                       .group = group,
                                       .begin = first,
                                       .end = std::min(first + kQueryBlock, vectors),
                                       .slots = slots.data,
                                       .first = kv.begins ? *kv.begins.as<const int32_t>().row(head) : 0,
                                       .window = rows.window,
                                       .q = in,
                                       .out = o,
                                       .angles = angles,
                                       .totals = totals};
                HWY_DYNAMIC_DISPATCH(attend_block)(item, mine);
            }
            before += blocks;
        }
    });
}

}  // namespace trireme
#endif  // HWY_ONCE
