/// Decode attention inside one tile: scores, softmax, values.
///
/// The bits of a row do not depend on its neighbours: a score adds its products in the order of the head's elements
/// (AttendBy::kWholes: whole sums of 32 of them).
/// The sum of a tile runs in lanes fixed by slot; the accumulator takes slots one by one in order. Where a key lies
/// (tile or staged row), how many rows share it and how many are multiplied at a time changes none of that.

#include <array>
#include <limits>

#include "kernels/cpu/attention_decode.h"
#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/byte_dots.h"
#include "kernels/cpu/ops.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_item.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/pack-inl.h"
#include "kernels/cpu/pair_gemm-inl.h"
#include "kernels/cpu/rotate-inl.h"
#include "kernels/cpu/softmax-inl.h"
// clang-format on

#ifndef TRIREME_KERNELS_CPU_ATTENTION_ITEM_ONCE
#define TRIREME_KERNELS_CPU_ATTENTION_ITEM_ONCE
namespace trireme {

inline constexpr int64_t kBlock = 64;                      // slots handled at a time
inline constexpr int64_t kScored = 48;                     // query vectors whose scores are kept at once
inline constexpr int64_t kScoreStride = kTileTokens + 32;  // room for two vectors after the last slot
static_assert(kKeyBlock <= kBlock, "score_blocks copies a block of keys to the buffer for kBlock rows");

}  // namespace trireme
#endif

HWY_BEFORE_NAMESPACE();
namespace trireme {
namespace HWY_NAMESPACE {

static_assert(kScoreStride >= kTileTokens + 2 * kLanes, "multiply_panels writes whole strips");
static_assert(kBlock % (2 * kLanes) == 0, "panels have room for kBlock columns, and a strip has 2 * kLanes or more");

/// Selects register tiles of 3 rows by 4 vectors, or of 6 by 2. With many query vectors 6 by 2 widens fewer elements,
/// which matters for bf16 (75 % against 94 % of the FMA peak on Zen 3), not for f16. In the short products over
/// head_dim 3 by 4 reaches 92 %, 6 by 2 88 %.
template <class T>
HWY_INLINE int64_t widest_strip(int64_t queries) {
    return queries <= 3 || std::is_same_v<T, f16> ? kWide : kTall;
}

/// n rows of T in slots slot .., for queries [q, q + queries), and memory to prefetch meanwhile.
template <class T>
struct Rows {
    const T* at;
    int64_t stride, n, slot, q, queries;
    Upcoming ahead;
};

/// Calls visit(row, begin, end, slots) for each row of the queries [q0, q1); slots: its number in this tile.
template <class Visit>
HWY_INLINE void for_own(const DecodeItem& it, int64_t q0, int64_t q1, const Visit& visit) {
    for (int64_t r = q0 / it.group; r * it.group < q1; ++r) {
        visit(r, std::max(q0, r * it.group), std::min(q1, (r + 1) * it.group),
              std::min(kTileTokens, it.slots[r] + it.shift + 1 - it.first));
    }
}

/// Calls visit(Rows) for all slots of this tile that the queries [q0, q1) attend. First come the shared slots for all
/// queries at once, `most` at a time; then each row's own slots, copied together. `ahead`: memory to read after the
/// shared slots. copy_to(row, place, to) copies a row, which may be rotated by its position `place`. `direct`: shared
/// slots are not copied.
template <class T, class Tile, class From, class CopyTo, class Visit>
HWY_INLINE void walk(const DecodeItem& it, Tile& tile, const HeadRows<From>& staged, const char* ahead, int64_t q0,
                     int64_t q1, int64_t most, T* copy, bool direct, const CopyTo& copy_to, const Visit& visit) {
    const int64_t stride = row_stride<From>(it.layout.head_dim);
    const int64_t copied = std::is_same_v<T, q8_0> ? stride : it.dim_padded;
    if (!direct) most = kBlock;
    const auto place = [&](int64_t slot) { return it.ranks ? it.ranks[slot] - it.shift : 0; };
    for (int64_t b = 0; b < it.shared; b += most) {
        const int64_t n = std::min(most, it.shared - b), offset = b * stride * static_cast<int64_t>(sizeof(From));
        const Upcoming fetch =
            ahead ? Upcoming{ahead + offset, ahead + offset + n * stride * static_cast<int64_t>(sizeof(From))}
                  : Upcoming{};
        if constexpr (std::is_same_v<T, From>) {
            if (direct) {
                visit(Rows<T>{tile.row(b), stride, n, b, q0, q1 - q0, fetch});
                continue;
            }
        }
        for (int64_t i = 0; i < n; ++i) copy_to(tile.row(b + i), place(b + i), copy + i * copied);
        visit(Rows<T>{copy, copied, n, b, q0, q1 - q0, fetch});
    }
    for_own(it, q0, q1, [&](int64_t r, int64_t begin, int64_t end, int64_t slots) HWY_ATTR {
        const int32_t* ancestors = it.ancestors + r * it.ancestors_stride;
        for (int64_t b = it.shared; b < slots; b += kBlock) {
            const int64_t n = std::min(kBlock, slots - b);
            for (int64_t i = 0; i < n; ++i) {
                const int64_t beyond = it.first + b + i - it.cached[r] - it.shift;
                if (beyond < 0) {
                    copy_to(tile.row(b + i), place(b + i), copy + i * copied);
                } else {
                    copy_to(staged.row(ancestors[beyond]), it.cached[r] + beyond, copy + i * copied);
                }
            }
            visit(Rows<T>{copy, copied, n, b, begin, end - begin, Upcoming{}});
        }
    });
}

/// scores[q - q0][slot] = q . key, for keys that are read in place. Values are prefetched while keys are multiplied.
template <class T, class Multiply>
HWY_INLINE void score_blocks(const DecodeItem& it, int64_t q0, int64_t q1, float* scores, T* copy,
                             const Multiply& multiply) {
    const int64_t dim = it.layout.head_dim;
    const int64_t stride = row_stride<T>(dim);
    const T* keys = it.access->template key_blocks<T>(it.tile, it.head);
    const HeadRows<T> staged = it.access->template staged_keys<T>(it.head);
    multiply(keys, it.shared, q0, q1 - q0, scores, it.access->value(it.tile, it.head, 0));
    // A row's own slots begin with a block of 16, whose first keys may be in the tile.
    for_own(it, q0, q1, [&](int64_t r, int64_t begin, int64_t end, int64_t slots) HWY_ATTR {
        const int32_t* ancestors = it.ancestors + r * it.ancestors_stride;
        const KeyBlocks block(reinterpret_cast<char*>(copy), it.layout.k_type, dim);
        for (int64_t b = it.shared; b < slots; b += kKeyBlock) {
            const int64_t staged_from =
                it.cached[r] + it.shift - it.first - b;  // keys of the block that are in the tile
            if (staged_from > 0) {
                std::memcpy(static_cast<void*>(copy), keys + b * stride,
                            static_cast<size_t>(kKeyBlock * stride) * sizeof(T));
            }
            for (int64_t i = std::max(int64_t{0}, staged_from); i < std::min(kKeyBlock, slots - b); ++i) {
                block.put(i, reinterpret_cast<const char*>(staged.row(ancestors[i - staged_from])));
            }
            multiply(copy, std::min(kKeyBlock, slots - b), begin, end - begin, scores + (begin - q0) * kScoreStride + b,
                     nullptr);
        }
    });
}

/// score_blocks with q8_0 keys as interleaved weights. Meanwhile values are prefetched, those of 16 tokens with their
/// keys.
void score_wholes(const DecodeItem& it, int64_t q0, int64_t q1, float* scores, q8_0* copy) {
    const int64_t dim = it.layout.head_dim, query = query_floats(it.by, dim, it.dim_padded);
    score_blocks(it, q0, q1, scores, copy,
                 [&](const q8_0* keys, int64_t n, int64_t q, int64_t queries, float* to, const char* ahead) {
                     const auto* packed = reinterpret_cast<const std::byte*>(it.q + q * query);
                     const ByteProduct product{.x = const_cast<std::byte*>(packed),  // only read
                                               .rows = queries,
                                               .k = dim,
                                               .type = StoredType::kQ8_0,
                                               .tiles = reinterpret_cast<const std::byte*>(keys),
                                               .stride = row_stride<q8_0>(dim),
                                               .two = true,
                                               .out = to,
                                               .first = 0,
                                               .out_stride = kScoreStride};
                     const auto value = static_cast<int64_t>(it.access->value_bytes());
                     for (int64_t i = 0; i < n; i += kKeyBlock) {
                         for (int64_t line = 0; ahead && line < kKeyBlock * value; line += 64) {
                             prefetch(ahead + i * value + line);
                         }
                         multiply_bytes(product, i, std::min(i + kKeyBlock, n));
                     }
                 });
}

/// scores[q - q0][slot] = q . key in f32, with keys rotated if necessary.
template <class T>
void score_keys(const DecodeItem& it, int64_t q0, int64_t q1, float* scores, float* panels, float* copy) {
    const int64_t dim = it.layout.head_dim, padded = it.dim_padded;
    if (it.ranks == nullptr) {
        return score_blocks(
            it, q0, q1, scores, reinterpret_cast<T*>(copy),
            [&](const T* keys, int64_t n, int64_t q, int64_t queries, float* to, const char* ahead) HWY_ATTR {
                const float* from = it.q + q * padded;
                if constexpr (std::is_same_v<T, q8_0>) {  // of a CPU without dot products of bytes
                    for (int64_t i = 0; i < n; i += kBlock) {
                        const int64_t some = std::min(kBlock, n - i);
                        widen_keys(keys + i * row_stride<T>(dim), some, dim, panels);
                        multiply_keys(from, padded, queries, panels, some, dim, to + i, kScoreStride, kTall);
                    }
                } else {
                    multiply_keys(from, padded, queries, keys, n, dim, to, kScoreStride, widest_strip<T>(queries),
                                  ahead);
                }
            });
    }
    // Keys that need rotation are read as rows.
    using Element = typename KeyRows<T>::Element;
    KeyRows<T> keys(it.access->template key_blocks<T>(it.tile, it.head), dim,
                    reinterpret_cast<Element*>(copy + kBlock * padded), padded);
    walk(
        it, keys, it.access->template staged_keys<T>(it.head), it.access->value(it.tile, it.head, 0), q0, q1, kBlock,
        copy, /*direct=*/false,
        [&](const auto* row, int64_t place, float* to)
            HWY_ATTR { rotated_row(row, it.angles.row(place), dim, to, padded); },
        [&](const Rows<float>& k) HWY_ATTR {
            const int64_t widest = widest_strip<float>(k.queries);
            // Half is prefetched while keys are packed, the rest while they are multiplied: after one burst the memory
            // would idle. (Without the argument `ahead`, decoding of the demo model was 4 % slower.)
            const Upcoming half{k.ahead.next, k.ahead.next + (k.ahead.end - k.ahead.next) / 2};
            pack_transposed(k.at, k.stride, k.n, dim, panels, widest, half);
            multiply_panels<false>(it.q + k.q * padded, padded, k.queries, panels, dim,
                                   scores + (k.q - q0) * kScoreStride + k.slot, kScoreStride, k.n, widest,
                                   k.ahead.next);
        });
}

/// Calls visit(Rows) for the values that the queries [q0, q1) attend. Heads that are not whole vectors are copied; else
/// a vector could reach beyond the tile's last row.
template <class T, class Visit>
HWY_INLINE void walk_values(const DecodeItem& it, int64_t q0, int64_t q1, T* copy, const Visit& visit) {
    const int64_t dim = it.layout.head_dim, padded = it.dim_padded;
    const HeadRows<T> values = it.access->template values<T>(it.tile, it.head);
    walk(
        it, values, it.access->template staged_values<T>(it.head), it.next, q0, q1, kTileTokens, copy,
        /*direct=*/dim % kLanes == 0,
        [&](const T* row, int64_t, T* to) {
            const int64_t n = row_stride<T>(dim);
            copy_row(row, n, to, std::max(n, padded));
        },
        visit);
}

/// Adds p . values to the records. The next item's keys are prefetched while values are multiplied.
template <class T>
void add_values(const DecodeItem& it, int64_t q0, int64_t q1, const float* p, T* copy) {
    const int64_t dim = it.layout.head_dim, record = kRecordHead + it.dim_padded;
    walk_values(it, q0, q1, copy, [&](const Rows<T>& v) HWY_ATTR {
        const ptrdiff_t fetch = v.ahead.next ? v.ahead.next - reinterpret_cast<const char*>(v.at) : 0;
        Strip<T> strip{v.at, v.stride, v.n, fetch};
        if constexpr (std::is_same_v<T, q8_0>) strip.dim = dim;
        multiply<true>(p + (v.q - q0) * kScoreStride + v.slot, kScoreStride, v.queries, strip,
                       it.records + v.q * record + kRecordHead, record, dim, widest_strip<T>(v.queries));
    });
}

#if TRIREME_PAIRS
/// score_keys and add_values with dot products of pairs. Queries and probabilities are bf16, in place of their floats.
void score_pairs(const DecodeItem& it, int64_t q0, int64_t q1, float* scores, bf16* copy) {
    const int64_t dim = it.layout.head_dim, stride = 2 * it.dim_padded;
    const auto* queries = reinterpret_cast<const bf16*>(it.q);
    score_blocks(it, q0, q1, scores, copy,
                 [&](const bf16* keys, int64_t n, int64_t q, int64_t count, float* to, const char* ahead) {
                     pair_multiply_keys(queries + q * stride, stride, count, keys, n, dim, to, kScoreStride, ahead);
                 });
}

void add_pair_values(const DecodeItem& it, int64_t q0, int64_t q1, const bf16* p, bf16* copy) {
    const int64_t dim = it.layout.head_dim, record = kRecordHead + it.dim_padded, stride = 2 * kScoreStride;
    walk_values(it, q0, q1, copy, [&](const Rows<bf16>& v) {
        const ptrdiff_t fetch = v.ahead.next ? v.ahead.next - reinterpret_cast<const char*>(v.at) : 0;
        pair_weigh(p + (v.q - q0) * stride + v.slot, stride, v.queries, PairRows{v.at, v.stride, v.n, fetch},
                   it.records + v.q * record + kRecordHead, record, dim);
    });
}
#endif

/// The scores of queries [q0, q1).
void score(const DecodeItem& it, int64_t q0, int64_t q1, float* scores, float* panels, float* copy) {
    if (it.by == AttendBy::kWholes) return score_wholes(it, q0, q1, scores, reinterpret_cast<q8_0*>(copy));
#if TRIREME_PAIRS
    if (it.by == AttendBy::kPairs) return score_pairs(it, q0, q1, scores, reinterpret_cast<bf16*>(copy));
#endif
    with_kv_type(it.layout.k_type, [&](auto t) HWY_ATTR { score_keys<decltype(t)>(it, q0, q1, scores, panels, copy); });
}

/// Scores, softmax and values of one item. scratch: attend_item_floats.
void attend_item_body(const DecodeItem& it, float* scratch) {
    const int64_t record = kRecordHead + it.dim_padded, queries = it.rows * it.group;
    float *scores = scratch, *panels = scores + kScored * kScoreStride, *copy = panels + kBlock * it.dim_padded;
    for (int64_t q0 = 0; q0 < queries; q0 += kScored) {
        const int64_t q1 = std::min(q0 + kScored, queries);
        score(it, q0, q1, scores, panels, copy);
        // Two passes: the exponentials of a row need not wait for its maximum.
        const auto slots_of = [&](int64_t q) {
            return std::min(kTileTokens, it.slots[q / it.group] + it.shift + 1 - it.first);
        };
        const auto unseen_of = [&](int64_t q) {  // the tile's first slots, before the row's window
            return std::max(int64_t{0}, it.slots[q / it.group] + it.shift + 1 - it.window - it.first);
        };
        for (int64_t q = q0; q < q1; ++q) {
            if (slots_of(q) <= unseen_of(q)) continue;  // the row sees nothing of this tile
            float* row = scores + (q - q0) * kScoreStride;
            std::fill_n(row, unseen_of(q), -std::numeric_limits<float>::infinity());
            it.records[q * record] = row_max(row, slots_of(q));
        }
        for (int64_t q = q0; q < q1; ++q) {
            if (slots_of(q) <= unseen_of(q)) continue;
            float* rec = it.records + q * record;
            rec[1] = exp_row(scores + (q - q0) * kScoreStride, slots_of(q), rec[0]);
            std::fill(rec + kRecordHead, rec + record, 0.0f);
            if (it.weights == nullptr) continue;
            const float* weights = scores + (q - q0) * kScoreStride;
            std::copy(weights, weights + slots_of(q), it.weights + q * it.weights_stride);
            it.tops[q * it.tops_stride] = rec[0];
        }
#if TRIREME_PAIRS
        if (it.by == AttendBy::kPairs) {
            for (int64_t q = q0; q < q1; ++q) {
                round_in_place(scores + (q - q0) * kScoreStride, (slots_of(q) + kLanes - 1) / kLanes * kLanes);
            }
            add_pair_values(it, q0, q1, reinterpret_cast<const bf16*>(scores), reinterpret_cast<bf16*>(copy));
            continue;
        }
#endif
        with_kv_type(it.layout.v_type,
                     [&](auto t) HWY_ATTR { add_values(it, q0, q1, scores, reinterpret_cast<decltype(t)*>(copy)); });
    }
}

/// running = running + partial, both records.
void merge_record_body(float* running, const float* partial, int64_t dim_padded) {
    merge_tile(running[0], running[1], running + kRecordHead, partial[0], partial[1], partial + kRecordHead,
               dim_padded);
}

void finish_record_body(const float* record, float* out, int64_t dim) {
    const F d;
    const Vf sum = hn::Set(d, record[1]);
    map_row(record + kRecordHead, out, dim, [&](Vf v, int64_t) HWY_ATTR { return hn::Div(v, sum); });
}

void scale_query_body(const float* q, float scale, AttendBy by, float* to, int64_t dim, int64_t dim_padded) {
    const F d;
    map_row(q, to, dim, [&](Vf v, int64_t) HWY_ATTR { return hn::Mul(v, hn::Set(d, scale * kLog2E)); });
    for (int64_t i = dim; i < dim_padded; ++i) to[i] = 0;
    if (by == AttendBy::kPairs) round_in_place(to, dim_padded);
}

}  // namespace HWY_NAMESPACE
}  // namespace trireme
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(attend_item_body);
HWY_EXPORT(merge_record_body);
HWY_EXPORT(finish_record_body);
HWY_EXPORT(scale_query_body);

AttendBy attends_by(const LayerKv& kv) {
    if (kv.angles) return AttendBy::kFloats;
    if (kv.layout.k_type == DType::kQ8_0 && byte_dots() != ByteDots::kNone) return AttendBy::kWholes;
    return attends_pairs(kv.layout) ? AttendBy::kPairs : AttendBy::kFloats;
}
int64_t attend_item_floats(int64_t dim_padded) {
    return kScored * kScoreStride + (2 * kBlock + kKeyBlock) * dim_padded;
}
void attend_item(const DecodeItem& item, float* scratch) {
    HWY_DYNAMIC_DISPATCH(attend_item_body)(item, scratch);
}
void merge_record(float* running, const float* partial, int64_t dim_padded) {
    HWY_DYNAMIC_DISPATCH(merge_record_body)(running, partial, dim_padded);
}
void finish_record(const float* record, float* out, int64_t dim) {
    HWY_DYNAMIC_DISPATCH(finish_record_body)(record, out, dim);
}
int64_t query_floats(AttendBy by, int64_t dim, int64_t dim_padded) {
    return by == AttendBy::kWholes ? byte_row_bytes(dim) / 4 : dim_padded;
}
void scale_query(const float* q, float scale, AttendBy by, float* to, int64_t dim, int64_t dim_padded) {
    if (by != AttendBy::kWholes) return HWY_DYNAMIC_DISPATCH(scale_query_body)(q, scale, by, to, dim, dim_padded);
    alignas(64) std::array<float, kMostQuantised> scaled;
    HWY_DYNAMIC_DISPATCH(scale_query_body)(q, scale, by, scaled.data(), dim, dim_padded);
    pack_bytes(scaled.data(), dim, 0, dim, /*two=*/true, reinterpret_cast<std::byte*>(to));
}

}  // namespace trireme
#endif  // HWY_ONCE
