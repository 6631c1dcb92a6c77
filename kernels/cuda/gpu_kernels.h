#pragma once
/// GpuKernels: the GPU backend's operations over a Launcher, which runs kernel bodies. The CUDA module's Launcher runs
/// them on a device, that of tests/simt on the host; everything here is common to both.
///
/// A Launcher has
///     launch<Body>(name, bytes, grid, args)     enqueues the kernel; `bytes` for the trace
///     multiply(name, bytes, out, x, w)          out = x w^T by the library, x of w's type, row stride a multiple of 8
/// Both use the stream that the Launcher was made for. Faults of kernels are reported when that is synchronized.

#include <algorithm>
#include <utility>

#include "kernels/bytes.h"
#include "kernels/cuda/accept.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_prefill.h"
#include "kernels/cuda/attention_split.h"
#include "kernels/cuda/chunks.h"
#include "kernels/cuda/gpu_products.h"
#include "kernels/cuda/merge_splits.h"
#include "kernels/cuda/rowwise.h"
#include "kernels/cuda/sample.h"
#include "kernels/cuda/scratch.h"
#include "runtime/buffer.h"

namespace trireme::gpu {

static_assert(gpu::kPadding == trireme::kPadding && kTile == kTileTokens && kStaged == kMaxRows &&
              kRecordHead == kMaxAndSum && kLargestF16 == kMostF16 && kQuant == kQuantBlock &&
              Sample::kSiblings == kMaxRows);
static_assert(Accept::kMost >= kMaxRows, "a token has at most this many children");
static_assert(Seen::kEvery == kEverySlot);

/// All operations over a Launcher. `device` allocates scratch, and must outlive the object. Errors: Exit::kInternal for
/// heads of more than 256 elements.
template <class Launcher>
class GpuKernels final : public GpuProducts<Launcher> {
    using Base = GpuProducts<Launcher>;
    using Base::launcher_;
    using Base::scratch_;

  public:
    GpuKernels(Device& device, Launcher launcher, Phase phase, const KernelLimits& limits)
        : Base(device, std::move(launcher), phase, limits) {
        check(limits.head_dim <= kMaxHeadDim, "attention: heads of {} elements, at most {} are supported",
              limits.head_dim, kMaxHeadDim);
    }

  private:
    static constexpr int64_t kMaxHeadDim = MergeSplits<TileSplits>::kThreads;
    static_assert(kMaxHeadDim <= AttendTile<AnyType, 4>::kMaxDim);

    void do_rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps) override {
        launcher_.template launch<RmsNorm>(
            "rmsnorm", bytes::rmsnorm(x), {out.rows(), x.cols() / weight.rows()},
            {rounded_rows_of(out), rows_of<float>(x), static_cast<const float*>(weight.data()), weight.rows(), eps});
    }
    void do_add_rmsnorm(const Tensor& out, const Tensor& x, const Tensor& y, const Tensor& weight, float eps) override {
        launcher_.template launch<RmsNorm>(
            "add_rmsnorm", bytes::add(x) + out.bytes(), {out.rows()},
            {rounded_rows_of(out), rows_of<float>(x), static_cast<const float*>(weight.data()), weight.rows(), eps,
             rows_of<const float>(y)});
    }
    void do_rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim) override {
        launcher_.template launch<Rope>(
            "rope", bytes::rope(x), {x.rows()},
            {rows_of<float>(x), rows_of<const float>(cos_sin), x.cols() / head_dim, head_dim});
    }
    void do_swiglu(const Tensor& out, const Tensor& gate_up) override {
        launcher_.template launch<Swiglu>("swiglu", bytes::swiglu(gate_up),
                                          {div_up(out.cols(), Swiglu::kThreads), out.rows()},
                                          {rounded_rows_of(out), rows_of<const float>(gate_up), out.cols()});
    }
    void do_add(const Tensor& x, const Tensor& y) override {
        Rows<const float> added = rows_of<const float>(y);
        if (y.rows() == 1) added.stride = 0;
        launcher_.template launch<Add>("add", bytes::add(x), {div_up(x.cols(), Add::kThreads), x.rows()},
                                       {rows_of<float>(x), added, x.cols()});
    }
    void do_gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) override {
        launcher_.template launch<GatherRows>("gather_rows", bytes::gather_rows(out), {out.rows()},
                                              {rows_of<float>(out), rows_of<const float>(x),
                                               static_cast<const int32_t*>(rows.data()), x.rows(), out.cols()});
    }
    void do_sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                   const SamplingRule& rule, const Tensor& distributions, const Tensor& ends) override {
        launcher_.template launch<Sample>(
            "sample", bytes::sample(logits), {sampled_rows(ids, distributions, ends)},
            {static_cast<const float*>(logits.data()), logits.dim(1), logits.dim(2), vocab,
             static_cast<const int64_t*>(uniforms.data()), static_cast<const int32_t*>(ends.data()),
             static_cast<int32_t*>(ids.data()), static_cast<RowDistribution*>(distributions.data()), rule});
    }
    void do_accept(const Tensor& out, const Tensor& logits, const Tensor& distributions, const Tensor& proposals,
                   int64_t vocab) override {
        launcher_.template launch<Accept>(
            "accept", bytes::accept(logits), {1},
            {static_cast<const Proposal*>(proposals.data()), static_cast<const RowDistribution*>(distributions.data()),
             static_cast<const float*>(logits.data()), proposals.rows() - 1, distributions.rows(), logits.dim(2),
             logits.dim(1) * logits.dim(2), vocab, static_cast<uint64_t*>(scratch_.data()),
             static_cast<int32_t*>(out.data())});
    }
    void do_kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) override {
        launcher_.template launch<KvStage>(
            "kv_stage", bytes::kv_write(kv, k.rows()), {k.rows(), 2},
            {kv_of(kv), rows_of<const float>(k), rows_of<const float>(v),
             static_cast<const int32_t*>(rows.slots.data()), static_cast<const int32_t*>(rows.cached.data()),
             rows_of<const int32_t>(rows.ancestors)});
    }
    void do_kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                      const Tensor& change) override {
        launcher_.template launch<KvAppend>(
            "kv_append", bytes::kv_write(kv, k.rows()), {k.rows(), 2},
            {kv_of(kv), rows_of<const float>(k), rows_of<const float>(v),
             static_cast<const int32_t*>(rows.slots.data()), static_cast<const int32_t*>(rows.sequences.data()),
             rows_of<float>(change)});
    }
    void do_kv_keep(std::span<const LayerKv> layers, const Tensor& kept) override {
        while (!layers.empty()) {
            const std::span<const LayerKv> some = layers.first(std::min(layers.size(), KvKeep::kLayers));
            KvKeep::Args args = {kv_of(some[0]), rows_of<const int32_t>(kept), {}};
            for (size_t i = 0; i < some.size(); ++i) {
                const Kv kv = kv_of(some[i]);
                args.layers[i] = {kv.tiles.data, kv.staged_k, kv.staged_v};
            }
            launcher_.template launch<KvKeep>("kv_keep", bytes::kv_keep(some, kept),
                                              {kept.rows(), some[0].layout.kv_heads, static_cast<int64_t>(some.size())},
                                              args);
            layers = layers.subspan(some.size());
        }
    }

    void do_chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles,
                        int64_t chunk) override {
        launcher_.template launch<ChunkMeans>(
            "chunk_means", bytes::chunk_means(kv, tiles),
            {(tiles.end - tiles.first) * (kTile / chunk), kv.layout.kv_heads},
            {kv_of(kv), static_cast<char*>(means.data()), means.dtype(), means.dim(1), sequence, tiles.first, chunk});
    }
    void do_choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                          const Tensor& kv_of_head, const Tensor& pick) override {
        const auto* p = static_cast<const ChunkPick*>(pick.data());
        auto* order = static_cast<uint64_t*>(keys.data());
        const int64_t heads = means.dim(0), chunks = means.dim(1);
        with_type(means.dtype(), [&](auto t) {
            using T = decltype(t);
            launcher_.template launch<ScoreChunks<T>>(
                "score_chunks", means.bytes(), {div_up(chunks, ScoreChunks<T>::kChunks), heads},
                {order, static_cast<const T*>(means.data()), static_cast<const float*>(q.data()),
                 static_cast<const int32_t*>(kv_of_head.data()), kv_of_head.rows(), chunks, means.dim(2), p});
        });
        launcher_.template launch<PlaceChunks>("place_chunks", keys.bytes(), {heads},
                                               {static_cast<int32_t*>(places.data()), order, chunks, p});
    }
    void do_gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick,
                          int64_t chunk, const TileRange& part) override {
        const int64_t all = places.cols(), first = part.first * (kTile / chunk);
        const int64_t end = part.end == kEveryTile ? all : std::min(all, part.end * (kTile / chunk));
        if (first >= end) return;
        launcher_.template launch<GatherChunks>("gather_chunks", 0, {end - first, to.layout.kv_heads},
                                                {kv_of(to), kv_of(from), static_cast<const int32_t*>(places.data()),
                                                 all, first, chunk, static_cast<const ChunkPick*>(pick.data())});
    }

    /// Operands of attention.
    struct Attention {
        const Tensor &out, &q;
        const LayerKv& kv;
        const Tensor& kv_of_head;
        const RowsView& rows;
        const TileRange& part;
        const AttentionReport& report;
    };
    void do_attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                      const RowsView& rows, const TileRange& part, const AttentionReport& report) override {
        const KvLayout& l = kv.layout;
        const Attention x = {out, q, kv, kv_of_head, rows, part, report};
        // q8_0 keys that are rotated as they are read belong to drafting levels, which see few. A kernel of q8_0 for
        // heads of 256 elements spills registers on sm_80.
        const bool any = l.k_type == DType::kQ8_0 && (kv.angles || l.head_dim > AttendTile<q8_0, 2>::kMaxDim);
        if (l.k_type != l.v_type || any) return attention_of<AnyType>(x);
        if (this->phase() == Phase::kPrefill && l.head_dim <= 128 && l.k_type != DType::kF32) {
            if (l.k_type == DType::kQ8_0) return prefill_quantised(x);
            return l.k_type == DType::kF16 ? prefill_of<f16>(x) : prefill_of<bf16>(x);
        }
        if (l.k_type == DType::kF16 && !kv.angles) return split_of<f16>(x);
        if (l.k_type == DType::kBF16 && !kv.angles) return split_of<bf16>(x);
        if (l.k_type == DType::kQ8_0) {
            if (l.head_dim <= AttendTile<q8_0, 1>::kMaxDim) return attend<AttendTile<q8_0, 1>>(x);
            return attend<AttendTile<q8_0, 2>>(x);
        }
        with_type(l.k_type, [&](auto t) { attention_of<decltype(t)>(x); });
    }
    template <class T>
    void attention_of(const Attention& x) {
        if (x.kv.layout.head_dim <= AttendTile<T, 1>::kMaxDim) return attend_by<T, 1>(x);
        if (x.kv.layout.head_dim <= AttendTile<T, 2>::kMaxDim) return attend_by<T, 2>(x);
        attend_by<T, 4>(x);
    }
    template <class T, int kPieces>
    void attend_by(const Attention& x) {
        if (x.kv.angles) return attend<AttendTile<T, kPieces, true>>(x);
        // 16 bits that are not rotated have AttendSplit.
        if constexpr (sizeof(T) != 2) attend<AttendTile<T, kPieces>>(x);
    }
    template <class T>
    void split_of(const Attention& x) {
        if (x.kv.layout.head_dim <= 64) return split_by<T, 64>(x);
        if (x.kv.layout.head_dim <= 96) return split_by<T, 96>(x);
        if (x.kv.layout.head_dim <= 128) return split_by<T, 128>(x);
        attend<AttendSplit<T, 256, 1>>(x);
    }
    // A block has all vectors of a KV head, if they are at most 64; 32 where three parts of 64 would spill registers.
    template <class T, int kDim>
    void split_by(const Attention& x) {
        constexpr int kMostTiles = std::is_same_v<T, bf16> && kDim == 128 ? 2 : 4;
        const int64_t vectors = vectors_of_run(x);
        if (vectors <= 16) return attend<AttendSplit<T, kDim, 1>>(x);
        if (vectors <= 32) return attend<AttendSplit<T, kDim, 2>>(x);
        attend<AttendSplit<T, kDim, kMostTiles>>(x);
    }
    void prefill_quantised(const Attention& x) {
        if (x.kv.layout.head_dim <= 64) return prefill<AttendPrefill<f16, 64, false, q8_0>>(x);
        prefill<AttendPrefill<f16, 128, false, q8_0>>(x);
    }
    template <class T>
    void prefill_of(const Attention& x) {
        if (x.kv.layout.head_dim <= 64) return prefill_by<T, 64>(x);
        prefill_by<T, 128>(x);
    }
    template <class T, int kDim>
    void prefill_by(const Attention& x) {
        if (x.kv.angles) return prefill<AttendPrefill<T, kDim, true>>(x);
        prefill<AttendPrefill<T, kDim>>(x);
    }
    template <class Body>
    void prefill(const Attention& x) {
        const int64_t heads = x.kv_of_head.rows(), runs = std::min(heads, x.kv.layout.kv_heads);
        launcher_.template launch<Body>(
            "attention_prefill", bytes::attention(x.kv, x.rows, {}), {Body::blocks(x.q.rows(), heads, runs)},
            {kv_of(x.kv), seen_of(this->phase(), x.q, x.kv, x.rows), rows_of<const float>(x.q), rows_of<float>(x.out),
             static_cast<const int32_t*>(x.kv_of_head.data()), heads, x.rows.max_slots, score_scale(x.kv),
             angles_of(this->phase(), x.kv), rows_of<float>(x.report.totals)});
    }

    /// Runs of rows of one sequence, at most.
    static int64_t runs(const Attention& x) { return std::min(x.q.rows(), x.kv.counts ? 1 : x.kv.tiles.rows()); }
    /// Query heads of a KV head, if all have equally many.
    static int64_t heads_of_run(const Attention& x) { return div_up(x.kv_of_head.rows(), x.kv.layout.kv_heads); }
    /// Query vectors that share their keys, if all runs have equally many.
    static int64_t vectors_of_run(const Attention& x) { return div_up(x.q.rows(), runs(x)) * heads_of_run(x); }
    /// Arguments of a wave of AttendTile, and of AttendSplit; their grids.
    template <class Body>
    auto arguments(const Attention& x, const Seen& seen, const Wave& wave, float* records) {
        const int64_t n = x.q.rows(), heads = x.kv_of_head.rows();
        check(heads < 2048, "attention: {} query heads, at most 2047 are supported", heads);  // AttendSplit::find
        const auto* kv_of_head = static_cast<const int32_t*>(x.kv_of_head.data());
        const Rows<float> weights = rows_of<float>(x.report.weights), tops = rows_of<float>(x.report.tops);
        if constexpr (requires { Body::kDim; }) {
            // Groups of vectors; the last one of each run may be partly filled.
            const int64_t width = (n * heads_of_run(x) + runs(x) * (Body::kVectors - 1)) / Body::kVectors;
            float* open = static_cast<float*>(scratch_.data()) + running_floats(this->limits());
            return std::pair(Grid{width, x.kv.layout.kv_heads, wave.splits},
                             typename Body::Args{kv_of(x.kv), seen, rows_of<const float>(x.q), kv_of_head, heads,
                                                 x.rows.max_slots, wave, static_cast<int>(width), records, open,
                                                 this->limits().max_rows, score_scale(x.kv), weights, tops});
        } else {
            return std::pair(Grid{wave.splits, heads, n},
                             typename Body::Args{kv_of(x.kv), seen, rows_of<const float>(x.q), kv_of_head, heads,
                                                 wave.split, x.rows.max_slots, records, score_scale(x.kv),
                                                 angles_of(this->phase(), x.kv), weights, tops});
        }
    }

    // Attends waves of splits whose records fit the scratch; the bits do not depend on the size of a wave.
    template <class Body>
    void attend(const Attention& x) {
        using Splits = typename Body::Splits;
        const int64_t n = x.q.rows(), heads = x.kv_of_head.rows(), dim = x.kv.layout.head_dim;
        const int64_t most = wave_floats(this->limits()) / (heads * n * (kMaxAndSum + dim));
        float* running = static_cast<float*>(scratch_.data());
        float* records = running + 2 * running_floats(this->limits());
        const Seen seen = seen_of(this->phase(), x.q, x.kv, x.rows);
        const size_t bytes = bytes::attention(x.kv, x.rows, x.part);
        const int64_t tiles = std::min(x.part.end, div_up(x.rows.max_slots, kTile));
        if (x.part.first >= tiles) return;
        const int64_t begin = Splits::of_tile(x.part.first), end = Splits::of_tile(tiles - 1) + 1;
        for (int64_t first = begin; first < end; first += most) {
            const Wave wave = {x.part.first * kTile, tiles * kTile, first, std::min(most, end - first)};
            const auto [grid, args] = arguments<Body>(x, seen, wave, records);
            launcher_.template launch<Body>(seen.prefill ? "attention_prefill" : "attention",
                                            first == begin ? bytes : 0, grid, args);
            launcher_.template launch<MergeSplits<Splits>>(
                "attention_merge", 0, {heads, n},
                {records, running, rounded_rows_of(x.out), seen, args.kv_of_head, heads, dim, wave,
                 rows_of<float>(x.report.totals), this->limits().max_rows});
        }
    }
};

}  // namespace trireme::gpu
