/// Decode attention of up to 64 rows over tiles and staged rows. A (tile, KV head) pair is read once for all rows and
/// query heads. Threads share the pairs, and records are merged in tile order: the same bits for any number of threads.

#include "kernels/cpu/attention_decode.h"

#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/ops.h"
#include "runtime/index.h"

namespace trireme {
namespace {

/// Query heads [begin, end) read KV head `head`.
struct HeadRun {
    int64_t head, begin, end;
    int64_t shift;  // DecodeItem::shift
};
static_assert(sizeof(HeadRun) % sizeof(float) == 0, "the scratch counts in floats");

int64_t padded(int64_t dim) {
    return (dim + 15) / 16 * 16;
}

/// Offsets of the parts of the scratch, in floats.
struct Scratch {
    Scratch(const KernelLimits& limits, int threads) {
        const int64_t dim = padded(limits.head_dim), queries = limits.heads * std::min(limits.max_rows, kMaxRows);
        q = limits.heads * static_cast<int64_t>(sizeof(HeadRun) / sizeof(float));
        running = q + queries * dim;
        records = running + queries * (kRecordHead + dim);
        items = records + std::max(queries * 8, limits.heads * 128) * (kRecordHead + dim);  // 8 tiles; 128 of one row
        total = items + threads * attend_item_floats(dim);
    }
    int64_t q, running, records, items, total;  // the runs of heads are at 0
};

/// The rows of one sequence, and the tiles of this call. Query vectors and records are ordered
/// [run of heads][row][head of the run].
struct Sequence {
    const KvAccess* access = nullptr;
    KvLayout layout = {};
    Matrix<float> out = {};
    Matrix<const float> in = {};
    Matrix<const int32_t> slots = {}, cached = {}, ancestors = {};
    const HeadRun* runs = nullptr;
    int64_t n_runs = 0, heads = 0, id = 0, rows = 0;
    AttendBy by = AttendBy::kFloats;
    int64_t dim_padded = 0, query = 0, record = 0;  // floats of a query vector, of a record
    int64_t shared = 0, stored = 0, tiles = 0;  // slots cached for every row, for any row; tiles that any row reaches
    int64_t part_begin = 0, part_end = 0;       // tiles of this call
    int64_t window = 0;                         // RowsView::window
    int64_t first_row = 0;                      // the first row's index in its forward
    float *q = nullptr, *running = nullptr, *records = nullptr;
    const LayerKv* kv = nullptr;
    const AttentionReport* report = nullptr;
    Matrix<float> totals = {};

    void scale_queries() const {
        const float scale = 1.0f / std::sqrt(static_cast<float>(layout.head_dim));
        float* to = q;
        for (int64_t i = 0; i < n_runs; ++i) {
            for (int64_t r = 0; r < rows; ++r) {
                for (int64_t h = runs[i].begin; h < runs[i].end; ++h, to += query) {
                    scale_query(in.row(r) + h * layout.head_dim, scale, by, to, layout.head_dim, dim_padded);
                }
            }
        }
    }

    /// Pairs of this call: all runs of a tile, then the next tile's.
    int64_t items() const { return (part_end - part_begin) * n_runs; }
    int64_t tile_of(int64_t i) const { return part_begin + i / n_runs; }

    /// Pair i of the wave of tiles that begins with `first`; the thread's next one is pair `next`.
    DecodeItem item(int64_t first, int64_t i, int64_t next) const {
        const HeadRun& run = runs[i % n_runs];
        const int64_t t = tile_of(i), slot0 = t * kTileTokens;
        DecodeItem it{.access = access,
                      .layout = layout,
                      .tile = in_tile(run, t) ? tile(run, t) : access->staged_key(0, 0),  // not read
                      .head = run.head,
                      .first = slot0,
                      .rows = rows,
                      .group = run.end - run.begin,
                      .shared = std::clamp(shared + run.shift - slot0, int64_t{0}, kTileTokens) / kKeyBlock * kKeyBlock,
                      .slots = slots.data,
                      .cached = cached.data,
                      .ancestors = ancestors.data,
                      .ancestors_stride = ancestors.stride,
                      .window = window,
                      .shift = run.shift,
                      .ranks = nullptr,
                      .angles = {},
                      .by = by,
                      .q = q + run.begin * rows * query,
                      .records = records + ((t - first) * heads + run.begin) * rows * record,
                      .weights = nullptr,
                      .tops = nullptr,
                      .weights_stride = 0,
                      .tops_stride = 0,
                      .dim_padded = dim_padded,
                      .next = nullptr};
        if (kv->angles) {
            it.ranks = kv->ranks.as<const int32_t>().row(run.head) + slot0;
            it.angles = kv->angles.as<const float>();
        }
        if (report->weights) {
            const Matrix<float> weights = report->weights.as<float>(), tops = report->tops.as<float>();
            it.weights = weights.row(run.begin) + slot0;
            it.tops = tops.row(run.begin) + t;
            it.weights_stride = weights.stride;
            it.tops_stride = tops.stride;
        }
        if (next < items() && in_tile(runs[next % n_runs], tile_of(next))) {
            it.next = access->key_blocks<char>(tile(runs[next % n_runs], tile_of(next)), runs[next % n_runs].head);
        }
        return it;
    }

    /// Whether the head has slots in tile t.
    bool in_tile(const HeadRun& run, int64_t t) const { return t * kTileTokens < stored + run.shift; }
    char* tile(const HeadRun& run, int64_t t) const { return access->tile(access->row_of(id, run.head), t); }

    /// Merges the wave's records of query vectors [begin, end); after the last wave, writes their results.
    void merge(int64_t first, int64_t in_wave, int64_t begin, int64_t end) const {
        const HeadRun* run = runs;
        for (int64_t v = begin; v < end; ++v) {
            while (v >= run->end * rows) ++run;
            const int64_t group = run->end - run->begin, within = v - run->begin * rows;
            const int64_t r = within / group, h = run->begin + within % group;
            const int64_t seen_end = *slots.row(r) + run->shift + 1;
            const int64_t seen = std::max(int64_t{0}, seen_end - window);  // the first slot that it sees
            const int64_t reach = std::min(first + in_wave, tiles_for(seen_end)), from = seen / kTileTokens;
            float* sum = running + ((first_row + r) * heads + h) * record;
            for (int64_t t = std::max(first, from); t < reach && seen < seen_end; ++t) {
                const float* part = records + ((t - first) * heads * rows + v) * record;
                if (t == from) {
                    std::copy(part, part + record, sum);
                } else {
                    merge_record(sum, part, dim_padded);
                }
            }
            if (first + in_wave != tiles) continue;
            float* to = out.row(r) + h * layout.head_dim;
            if (seen >= seen_end) {
                std::fill_n(sum, record, 0.0F);
                sum[0] = -std::numeric_limits<float>::infinity();
                std::fill_n(to, layout.head_dim, 0.0F);
            } else {
                finish_record(sum, to, layout.head_dim);
            }
            if (totals.data != nullptr) std::copy(sum, sum + 2, totals.row(r) + 2 * h);
        }
    }
};

template <class T>
Matrix<T> from_row(const Matrix<T>& m, int64_t row) {
    return {m.row(row), m.rows - row, m.cols, m.stride};
}

void check_rows(const Sequence& s, int64_t staged, int64_t max_slots) {
    for (int64_t r = 0; r < s.rows; ++r) {
        const int64_t p = *s.slots.row(r), c = *s.cached.row(r);
        check(c >= 0 && c - 1 <= p && p - c < kMaxRows && p < max_slots,
              "attention: a row stands at {} after {} cached slots, below {}", p, c, max_slots);
        check(!s.kv->angles || p < s.kv->angles.rows(), "attention: a key stands at {}, there are angles for {}", p,
              s.kv->angles.rows());
        for (int64_t i = 0; i <= p - c; ++i) {
            const int32_t a = s.ancestors(r, i);
            check(a >= 0 && a < staged, "attention: ancestor {} of {} staged rows", a, staged);
        }
    }
    for (int64_t i = 0; i < s.n_runs; ++i) {
        for (int64_t t = s.part_begin; t < s.part_end && s.in_tile(s.runs[i], t); ++t) {
            s.access->check_tile(s.access->row_of(s.id, s.runs[i].head), t * kTileTokens, "attention");
        }
    }
}

/// Calls body(first, n) for waves of n tiles whose records fit `room` floats.
template <class Body>
void for_waves(const Sequence& s, int64_t room, const Body& body) {
    const int64_t wave = room / (s.record * s.heads * s.rows);
    for (int64_t first = s.part_begin; first < s.part_end; first += wave) {
        body(first, std::min(wave, s.part_end - first));
    }
}

/// Attends a sequence with all threads, which share its pairs.
template <class ItemScratch>
void attend_together(const Sequence& s, int64_t room, const ItemScratch& item_scratch) {
    s.scale_queries();
    Handout items(s.items(), parallel_width());
    parallel([&](int thread, int threads) {
        int64_t i = items.first(thread);
        for_waves(s, room, [&](int64_t first, int64_t in_wave) {
            for (int64_t next; i < items.size() && s.tile_of(i) < first + in_wave; i = next) {
                next = items.next();
                attend_item(s.item(first, i, next), item_scratch(thread));
            }
            parallel_barrier();
            const Part merges = part_of(s.heads * s.rows, thread, threads);
            s.merge(first, in_wave, merges.begin, merges.end);
            parallel_barrier();
        });
    });
}

/// Attends a sequence with one thread.
void attend_alone(const Sequence& s, int64_t room, float* item_scratch) {
    s.scale_queries();
    int64_t i = 0;
    for_waves(s, room, [&](int64_t first, int64_t in_wave) {
        for (; i < s.items() && s.tile_of(i) < first + in_wave; ++i) attend_item(s.item(first, i, i + 1), item_scratch);
        s.merge(first, in_wave, 0, s.heads * s.rows);
    });
}

}  // namespace

size_t attention_decode_scratch(const KernelLimits& limits, int threads) {
    return static_cast<size_t>(Scratch(limits, threads).total) * sizeof(float);
}

void attention_decode(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                      const RowsView& rows, const TileRange& part, const AttentionReport& report,
                      const KernelLimits& limits, void* scratch) {
    const KvAccess access(kv);
    const Matrix<float> o = out.as<float>();
    const Matrix<const float> in = q.as<const float>();
    const Matrix<const int32_t> kv_head = kv_of_head.as<const int32_t>();
    const Matrix<const int32_t> slots = rows.slots.as<const int32_t>();
    const Matrix<const int32_t> cached = rows.cached.as<const int32_t>();
    const Matrix<const int32_t> ids = rows.sequences.as<const int32_t>();
    const Matrix<const int32_t> ancestors = rows.ancestors.as<const int32_t>();
    const int64_t heads = kv_head.rows, dim_padded = padded(kv.layout.head_dim), record = kRecordHead + dim_padded;
    const AttendBy by = attends_by(kv);
    const Scratch at(limits, parallel_width());
    float* floats = static_cast<float*>(scratch);

    HeadRun* runs = static_cast<HeadRun*>(scratch);
    int64_t n_runs = 0;
    for (int64_t h = 0; h < heads; ++h) {
        const int64_t head = *kv_head.row(h);
        check(head >= 0 && head < kv.layout.kv_heads, "attention: query head {} reads KV head {} of {}", h, head,
              kv.layout.kv_heads);
        if (h == 0 || runs[n_runs - 1].head != head) {
            const int64_t most = *cached.row(0), count = kv.counts ? *kv.counts.as<const int32_t>().row(head) : most;
            check(!kv.counts || (count >= 0 && count <= most), "attention: a head has {} tokens where {} may be", count,
                  most);
            runs[n_runs++] = {head, h, h, count - most};
        }
        runs[n_runs - 1].end = h + 1;
    }

    std::array<Sequence, kMaxRows> sequences;
    int64_t n_sequences = 0, most_rows = 0;
    for (int64_t begin = 0, end = 0; begin < in.rows; begin = end) {
        const int32_t id = *ids.row(begin);
        int64_t shared = *cached.row(begin), stored = shared, last = 0, earliest = *slots.row(begin);
        for (end = begin; end < in.rows && *ids.row(end) == id; ++end) {
            shared = std::min(shared, int64_t{*cached.row(end)});
            stored = std::max(stored, int64_t{*cached.row(end)});
            last = std::max(last, int64_t{*slots.row(end)});
            earliest = std::min(earliest, int64_t{*slots.row(end)});
        }
        if (id == kPadding) {
            for (int64_t r = begin; r < end; ++r) std::fill_n(o.row(r), o.cols, 0.0F);
            continue;
        }
        int64_t most = 0, least = 0;  // of the heads' shifts
        for (int64_t i = 0; i < n_runs; ++i) {
            most = i == 0 ? runs[i].shift : std::max(most, runs[i].shift);
            least = std::min(least, runs[i].shift);
        }
        const int64_t tiles = (last + most) / kTileTokens + 1, part_end = std::min(part.end, tiles);
        // Tiles before every row's window are not read.
        const int64_t seen = std::max(int64_t{0}, earliest + least + 1 - rows.window) / kTileTokens;
        check(part.first < tiles, "attention: tiles from {} on for rows of sequence {}, which have {}", part.first, id,
              tiles);
        const Sequence s{.access = &access,
                         .layout = kv.layout,
                         .out = from_row(o, begin),
                         .in = from_row(in, begin),
                         .slots = from_row(slots, begin),
                         .cached = from_row(cached, begin),
                         .ancestors = from_row(ancestors, begin),
                         .runs = runs,
                         .n_runs = n_runs,
                         .heads = heads,
                         .id = id,
                         .rows = end - begin,
                         .by = by,
                         .dim_padded = dim_padded,
                         .query = query_floats(by, kv.layout.head_dim, dim_padded),
                         .record = record,
                         .shared = shared,
                         .stored = stored,
                         .tiles = tiles,
                         .part_begin = std::clamp(seen, part.first, part_end == tiles ? tiles - 1 : part_end),
                         .part_end = part_end,
                         .window = rows.window,
                         .first_row = rows.first_row + begin,
                         .q = floats + at.q + begin * heads * dim_padded,
                         .running = floats + at.running,
                         .records = floats + at.records,
                         .kv = &kv,
                         .report = &report,
                         .totals = report ? from_row(report.totals.as<float>(), begin) : Matrix<float>{}};
        check_rows(s, rows.staged == 0 ? in.rows : rows.staged, rows.max_slots);
        sequences[index(n_sequences++)] = s;
        most_rows = std::max(most_rows, s.rows);
    }

    const auto item_scratch = [&](int thread) { return floats + at.items + thread * attend_item_floats(dim_padded); };
    const int width = parallel_width();
    const int64_t all_records = at.items - at.records, own = all_records / width;
    if (n_sequences < 2 * width || most_rows * heads * record > own) {
        for (int64_t i = 0; i < n_sequences; ++i) attend_together(sequences[index(i)], all_records, item_scratch);
        return;
    }
    // Many sequences, mostly of one row each: a thread takes whole ones, and no thread waits for another. (64 sequences
    // of one row, with a tile each: 0.2 ms instead of 2.5.)
    for_items(n_sequences, kTileTokens * heads * dim_padded, [&](int64_t i, int thread) {
        Sequence s = sequences[index(i)];
        s.records += thread * own;
        attend_alone(s, own, item_scratch(thread));
    });
}

}  // namespace trireme
