#include "kernels/kernels.h"

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/byte_dots.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cuda/scratch.h"

namespace trireme {
namespace {

/// Fails with a message that names the operand, what it is and what it must be.
void check_operand(const char* op, const char* operand, const Tensor& t, DType type, const Shape& shape) {
    check(t.dtype() == type && t.shape() == shape && (t || shape.elements() == 0), "{}: {} is {} {}{}, expected {} {}",
          op, operand, t ? "" : "null ", name_of(t.dtype()), t.shape(), name_of(type), shape);
}

void check_rank(const char* op, const char* operand, const Tensor& t, int rank) {
    check(t.shape().rank() == rank, "{}: {} has shape {}, expected {} dimensions", op, operand, t.shape(), rank);
}

void check_weight_type(const char* op, const char* operand, const Tensor& t) {
    check(t.dtype() == DType::kF32 || t.dtype() == DType::kF16 || t.dtype() == DType::kBF16,
          "{}: {} is {}, expected f32, f16 or bf16", op, operand, name_of(t.dtype()));
    check(static_cast<bool>(t), "{}: {} is null", op, operand);
}

bool overlap(const Tensor& a, const Tensor& b) {
    const auto end = [](const Tensor& t) {
        return static_cast<char*>(t.data()) +
               static_cast<size_t>((t.rows() - 1) * t.stride() + t.cols()) * size_of(t.dtype());
    };
    return a.data() < end(b) && b.data() < end(a);
}

void check_kv(const char* op, const LayerKv& kv) {
    const KvLayout& l = kv.layout;
    check(l.head_dim > 0 && l.head_dim % 8 == 0, "{}: head_dim {} is not a multiple of 8", op, l.head_dim);
    check(kv.tiles.dtype() == DType::kI64 && kv.tiles.shape().rank() == 2,
          "{}: tiles are {} {}, expected i64 [sequences, tiles]", op, name_of(kv.tiles.dtype()), kv.tiles.shape());
    for (const DType type : {l.k_type, l.v_type}) {
        check(type == DType::kF32 || type == DType::kF16 || type == DType::kBF16,
              "{}: KV is {}, expected f32, f16 or bf16", op, name_of(type));
    }
}

void check_staged(const char* op, const LayerKv& kv) {
    const Shape staged{kv.layout.kv_heads, kMaxRows, kv.layout.head_dim};
    check_operand(op, "staged_k", kv.staged_k, kv.layout.k_type, staged);
    check_operand(op, "staged_v", kv.staged_v, kv.layout.v_type, staged);
    check(kv.staged_k.contiguous() && kv.staged_v.contiguous(), "{}: staged rows are strided", op);
}

void check_decode_rows(const char* op, const RowsView& rows, int64_t n) {
    check_operand(op, "slots", rows.slots, DType::kI32, Shape{n});
    check_operand(op, "cached", rows.cached, DType::kI32, Shape{n});
    check_operand(op, "ancestors", rows.ancestors, DType::kI32, Shape{n, kMaxRows});
}

/// Checks the slots of single heads, and the operands of keys that are rotated as they are read.
void check_places(const char* op, const LayerKv& kv, Phase phase) {
    const Shape heads{kv.layout.kv_heads};
    if (kv.counts) {
        check_operand(op, "counts", kv.counts, DType::kI32, heads);
        check(phase == Phase::kDecode && kv.tiles.rows() == kv.layout.kv_heads && kv.first_tile == 0,
              "{}: tiles {} of single heads; want a row for each of {} heads, and a decode forward", op,
              kv.tiles.shape(), kv.layout.kv_heads);
    }
    if (kv.begins) check_operand(op, "begins", kv.begins, DType::kI32, heads);
    if (!kv.angles) return;
    check_operand(op, "angles", kv.angles, DType::kF32, Shape{kv.angles.rows(), kv.layout.head_dim});
    if (phase == Phase::kDecode) {
        check(static_cast<bool>(kv.counts), "{}: keys without rotation in a decode forward that has no slots", op);
        check_operand(op, "ranks", kv.ranks, DType::kI32, Shape{kv.layout.kv_heads, kv.ranks.cols()});
    }
}

void check_row_elements(const char* op, int64_t elements) {
    check(elements <= kMostRowElements, "{}: rows of {} elements, at most {} are supported", op, elements,
          kMostRowElements);
}

void check_new_rows(const char* op, const LayerKv& kv, const Tensor& k, const Tensor& v) {
    check_rank(op, "k", k, 2);
    const Shape shape{k.rows(), kv.layout.kv_heads * kv.layout.head_dim};
    check_operand(op, "k", k, DType::kF32, shape);
    check_operand(op, "v", v, DType::kF32, shape);
    check_row_elements(op, k.cols());
}

}  // namespace

void Kernels::embed(const Tensor& out, const WeightMatrix& table, const Tensor& ids) {
    check_rank("embed", "ids", ids, 1);
    if (table.blocks()) {
        check(table.parts().size() == 1 && is_quantised(table.parts()[0].type) && table.skip() == 0 &&
                  table.stored_cols(table.parts()[0].type) == table.cols(),
              "embed: a table of {} parts, {} columns after {}", table.parts().size(), table.cols(), table.skip());
    } else {
        check_rank("embed", "table", table.plain(), 2);
        check_weight_type("embed", "table", table.plain());
    }
    check_operand("embed", "ids", ids, DType::kI32, Shape{ids.rows()});
    check_operand("embed", "out", out, DType::kF32, Shape{ids.rows(), table.cols()});
    if (out.rows() == 0) return;
    if (table.blocks()) return do_embed_blocks(out, table, ids);
    do_embed(out, table.plain(), ids);
}

void Kernels::rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps) {
    check_rank("rmsnorm", "x", x, 2);
    check_operand("rmsnorm", "x", x, DType::kF32, x.shape());
    check_operand("rmsnorm", "out", out, DType::kF32, x.shape());
    check_rank("rmsnorm", "weight", weight, 1);
    check_operand("rmsnorm", "weight", weight, DType::kF32, weight.shape());
    check(weight.rows() > 0 && x.cols() % weight.rows() == 0, "rmsnorm: {} columns in groups of {}", x.cols(),
          weight.rows());
    if (out.shape().elements() > 0) do_rmsnorm(out, x, weight, eps);
}

void Kernels::matmul(const Tensor& out, const Tensor& x, const WeightMatrix& w) {
    check_rank("matmul", "x", x, 2);
    if (!w.blocks()) {
        check_rank("matmul", "w", w.plain(), 2);
        check_weight_type("matmul", "w", w.plain());
        check(w.plain().contiguous(), "matmul: w has a row stride of {}, expected {}", w.plain().stride(), w.cols());
    }
    check_operand("matmul", "x", x, DType::kF32, Shape{x.rows(), w.cols()});
    check_operand("matmul", "out", out, DType::kF32, Shape{x.rows(), w.rows()});
    check(x.rows() <= limits_.max_rows && w.cols() <= limits_.max_k && w.rows() <= limits_.max_n,
          "matmul: {} rows by w [{}, {}], the limits are {} rows and [{}, {}]", x.rows(), w.rows(), w.cols(),
          limits_.max_rows, limits_.max_n, limits_.max_k);
    if (out.shape().elements() == 0) return;
    check(!overlap(out, x), "matmul: out and x overlap");
    if (w.blocks()) {
        check(limits_.blocks, "matmul: weights in blocks, which the limits exclude");
        return do_matmul_blocks(out, x, w);
    }
    do_matmul(out, x, w.plain());
}

void Kernels::rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim) {
    check_rank("rope", "x", x, 2);
    check(head_dim > 0 && head_dim % 8 == 0 && x.cols() % head_dim == 0,
          "rope: head_dim {} in rows of {}, expected a multiple of 8 that divides them", head_dim, x.cols());
    check_operand("rope", "x", x, DType::kF32, x.shape());
    check_operand("rope", "cos_sin", cos_sin, DType::kF32, Shape{x.rows(), head_dim});
    check_row_elements("rope", x.cols());
    if (x.rows() > 0) do_rope(x, cos_sin, head_dim);
}

void Kernels::kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) {
    check_kv("kv_stage", kv);
    check_staged("kv_stage", kv);
    check_new_rows("kv_stage", kv, k, v);
    check(k.rows() <= kMaxRows, "kv_stage: {} rows, at most {} are staged", k.rows(), kMaxRows);
    check_decode_rows("kv_stage", rows, k.rows());
    if (k.rows() > 0) do_kv_stage(kv, k, v, rows);
}

void Kernels::kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                        const Tensor& change) {
    check_kv("kv_append", kv);
    check_new_rows("kv_append", kv, k, v);
    check_operand("kv_append", "slots", rows.slots, DType::kI32, Shape{k.rows()});
    check_operand("kv_append", "sequences", rows.sequences, DType::kI32, Shape{k.rows()});
    if (change) check_operand("kv_append", "change", change, DType::kF32, Shape{k.rows(), 2});
    if (k.rows() > 0) do_kv_append(kv, k, v, rows, change);
}

void Kernels::kv_keep(std::span<const LayerKv> layers, const Tensor& kept) {
    for (const LayerKv& kv : layers) {
        check_kv("kv_keep", kv);
        check_staged("kv_keep", kv);
        const Tensor &t = kv.tiles, &first = layers[0].tiles;
        check(kv.layout == layers[0].layout && t.shape() == first.shape() && t.stride() == first.stride() &&
                  kv.first_tile == layers[0].first_tile,
              "kv_keep: a layer's tiles {} from {} on are not laid out as the first's, {} from {} on", t.shape(),
              kv.first_tile, first.shape(), layers[0].first_tile);
    }
    check_rank("kv_keep", "kept", kept, 2);
    check_operand("kv_keep", "kept", kept, DType::kI32, Shape{kept.rows(), 3});
    if (kept.rows() > 0 && !layers.empty()) do_kv_keep(layers, kept);
}

void Kernels::attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                        const RowsView& rows, const TileRange& part, const AttentionReport& report) {
    check_kv("attention", kv);
    check_rank("attention", "kv_of_head", kv_of_head, 1);
    check_rank("attention", "q", q, 2);
    const int64_t n = q.rows(), heads = kv_of_head.rows(), head_dim = kv.layout.head_dim;
    check(n <= limits_.max_rows && heads <= limits_.heads && head_dim <= limits_.head_dim,
          "attention: {} rows of {} heads by {}, the limits are {}, {} and {}", n, heads, head_dim, limits_.max_rows,
          limits_.heads, limits_.head_dim);
    check_operand("attention", "q", q, DType::kF32, Shape{n, heads * head_dim});
    check_operand("attention", "out", out, DType::kF32, q.shape());
    check_operand("attention", "kv_of_head", kv_of_head, DType::kI32, Shape{heads});
    check_operand("attention", "slots", rows.slots, DType::kI32, Shape{n});
    check_operand("attention", "sequences", rows.sequences, DType::kI32, Shape{n});
    if (phase_ == Phase::kDecode) {
        const int64_t most = std::min(kMaxRows, limits_.max_rows);
        check(rows.first_row >= 0 && rows.first_row + n <= most,
              "attention: {} rows from {} on, at most {} in a decode forward", n, rows.first_row, most);
        check_staged("attention", kv);
        check_decode_rows("attention", rows, n);
    }
    check(part.first >= 0 && part.first < part.end, "attention: tiles [{}, {})", part.first, part.end);
    check(phase_ == Phase::kDecode || (part.first == 0 && part.end == kEveryTile),
          "attention: a prefill attends tiles [{}, {}) only", part.first, part.end);
    check_places("attention", kv, phase_);
    if (report) {
        check_operand("attention", "totals", report.totals, DType::kF32, Shape{n, heads, 2});
        check(part.first == 0 && part.end == kEveryTile, "attention: a report of tiles [{}, {}) only", part.first,
              part.end);
    }
    if (report.weights) {
        check(report && phase_ == Phase::kDecode && kv.counts && n == 1,
              "attention: weights of {} rows; want totals, slots and one row of a decode forward", n);
        check_operand("attention", "weights", report.weights, DType::kF32, Shape{heads, report.weights.cols()});
        check_operand("attention", "tops", report.tops, DType::kF32, Shape{heads, report.tops.cols()});
        check(rows.max_slots <= report.weights.cols() && rows.max_slots <= report.tops.cols() * kTileTokens,
              "attention: {} slots, weights have {} columns, tops {}", rows.max_slots, report.weights.cols(),
              report.tops.cols());
    }
    if (out.shape().elements() > 0) do_attention(out, q, kv, kv_of_head, rows, part, report);
}

void Kernels::swiglu(const Tensor& out, const Tensor& gate_up) {
    check_rank("swiglu", "out", out, 2);
    check_operand("swiglu", "out", out, DType::kF32, out.shape());
    check_operand("swiglu", "gate_up", gate_up, DType::kF32, Shape{out.rows(), 2 * out.cols()});
    if (out.shape().elements() > 0) do_swiglu(out, gate_up);
}

void Kernels::add(const Tensor& x, const Tensor& y) {
    check_rank("add", "x", x, 2);
    check_operand("add", "x", x, DType::kF32, x.shape());
    check_rank("add", "y", y, 2);
    check_operand("add", "y", y, DType::kF32, Shape{y.rows() == 1 ? 1 : x.rows(), x.cols()});
    if (x.shape().elements() > 0) do_add(x, y);
}

void Kernels::gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) {
    check_rank("gather_rows", "x", x, 2);
    check_rank("gather_rows", "rows", rows, 1);
    check_operand("gather_rows", "x", x, DType::kF32, x.shape());
    check_operand("gather_rows", "rows", rows, DType::kI32, Shape{rows.rows()});
    check_operand("gather_rows", "out", out, DType::kF32, Shape{rows.rows(), x.cols()});
    if (out.rows() > 0) do_gather_rows(out, x, rows);
}

namespace {

void check_logits(const char* op, const Tensor& logits, int64_t vocab, const KernelLimits& limits) {
    check_rank(op, "logits", logits, 3);
    check_operand(op, "logits", logits, DType::kF32, logits.shape());
    check(logits.contiguous() && vocab >= 1 && vocab <= logits.dim(0) * logits.dim(2) && vocab <= limits.vocab,
          "{}: {} ids in logits {}, the limit is {}", op, vocab, logits.shape(), limits.vocab);
}

}  // namespace

void Kernels::sample(const Tensor& ids, const Tensor& logits, int64_t vocab, const Tensor& uniforms,
                     const SamplingRule& rule, const Tensor& distributions, const Tensor& ends) {
    check_logits("sample", logits, vocab, limits_);
    const int64_t rows = sampled_rows(ids, distributions, ends);
    check(rows <= logits.dim(1), "sample: {} rows of logits {}", rows, logits.shape());
    if (distributions.data() != nullptr)
        check_operand("sample", "distributions", distributions, DType::kI64, Shape{rows, kRowDistributionWords});
    int64_t drawn = rows;
    if (ends.data() != nullptr) {
        check_operand("sample", "ends", ends, DType::kI32, Shape{rows});
        drawn = ids.rows();
        check(drawn <= kMaxRows, "sample: {} siblings, at most {}", drawn, kMaxRows);
    }
    if (ids.data() != nullptr || distributions.data() == nullptr || ends.data() != nullptr) {
        check_operand("sample", "ids", ids, DType::kI32, Shape{drawn});
        check_operand("sample", "uniforms", uniforms, DType::kI64, Shape{drawn});
    }
    if (rows > 0) do_sample(ids, logits, vocab, uniforms, rule, distributions, ends);
}

void Kernels::accept(const Tensor& out, const Tensor& logits, const Tensor& distributions, const Tensor& proposals,
                     int64_t vocab) {
    check_logits("accept", logits, vocab, limits_);
    check_rank("accept", "distributions", distributions, 2);
    check_rank("accept", "proposals", proposals, 2);
    const int64_t n = proposals.rows(), rows = distributions.rows();
    check(n >= 1 && n <= rows && rows <= kMaxRows && rows <= logits.dim(1),
          "accept: {} proposals in {} rows of logits {}, want 1 to {} of them", n, rows, logits.shape(), kMaxRows);
    check_operand("accept", "distributions", distributions, DType::kI64, Shape{rows, kRowDistributionWords});
    check_operand("accept", "proposals", proposals, DType::kI64, Shape{n, kProposalWords});
    check_operand("accept", "out", out, DType::kI32, Shape{n + 1});
    do_accept(out, logits, distributions, proposals, vocab);
}

namespace {

void check_chunk(const char* op, int64_t chunk) {
    check(chunk >= 1 && kTileTokens % chunk == 0, "{}: chunks of {} tokens, want a divisor of {}", op, chunk,
          kTileTokens);
}

void check_pick(const char* op, const Tensor& places, const Tensor& pick, int64_t kv_heads) {
    check_rank(op, "places", places, 2);
    check_operand(op, "places", places, DType::kI32, Shape{kv_heads, places.dim(1)});
    check_operand(op, "pick", pick, DType::kI32, Shape{kChunkPickWords});
    check(places.contiguous(), "{}: places have a row stride of {}", op, places.stride());
}

}  // namespace

void Kernels::chunk_means(const Tensor& means, const LayerKv& kv, int64_t sequence, const TileRange& tiles,
                          int64_t chunk) {
    check_kv("chunk_means", kv);
    check_chunk("chunk_means", chunk);
    check_rank("chunk_means", "means", means, 3);
    check_operand("chunk_means", "means", means, kv.layout.k_type,
                  Shape{kv.layout.kv_heads, means.dim(1), kv.layout.head_dim});
    check(means.contiguous() && kv.layout.head_dim <= kMostHeadDim && tiles.first >= 0 && tiles.first <= tiles.end &&
              tiles.end <= means.dim(1) * chunk / kTileTokens,
          "chunk_means: tiles [{}, {}) into means {}", tiles.first, tiles.end, means.shape());
    if (tiles.first < tiles.end) do_chunk_means(means, kv, sequence, tiles, chunk);
}

void Kernels::choose_chunks(const Tensor& places, const Tensor& keys, const Tensor& means, const Tensor& q,
                            const Tensor& kv_of_head, const Tensor& pick) {
    check_rank("choose_chunks", "means", means, 3);
    check_weight_type("choose_chunks", "means", means);
    check_rank("choose_chunks", "kv_of_head", kv_of_head, 1);
    const int64_t heads = means.dim(0), chunks = means.dim(1), dim = means.dim(2);
    check_pick("choose_chunks", places, pick, heads);
    check_operand("choose_chunks", "places", places, DType::kI32, Shape{heads, chunks});
    check_operand("choose_chunks", "keys", keys, DType::kI64, Shape{heads, chunks});
    check_operand("choose_chunks", "q", q, DType::kF32, Shape{1, kv_of_head.rows() * dim});
    check_operand("choose_chunks", "kv_of_head", kv_of_head, DType::kI32, Shape{kv_of_head.rows()});
    check(means.contiguous() && keys.contiguous() && dim <= kMostHeadDim, "choose_chunks: means {}, keys {}",
          means.shape(), keys.shape());
    do_choose_chunks(places, keys, means, q, kv_of_head, pick);
}

void Kernels::gather_chunks(const LayerKv& to, const LayerKv& from, const Tensor& places, const Tensor& pick,
                            int64_t chunk, const TileRange& part) {
    check_kv("gather_chunks", to);
    check_kv("gather_chunks", from);
    check_chunk("gather_chunks", chunk);
    check(to.layout == from.layout, "gather_chunks: tiles of different layouts");
    check_pick("gather_chunks", places, pick, to.layout.kv_heads);
    do_gather_chunks(to, from, places, pick, chunk, part);
}

void Kernels::key_weights(const Tensor& sums, const Tensor& q, const Tensor& totals, const LayerKv& kv,
                          const Tensor& kv_of_head, const RowsView& rows) {
    check_kv("key_weights", kv);
    check_places("key_weights", kv, phase_);
    check_rank("key_weights", "kv_of_head", kv_of_head, 1);
    check_rank("key_weights", "q", q, 2);
    const int64_t n = q.rows(), heads = kv_of_head.rows(), head_dim = kv.layout.head_dim;
    check(phase_ == Phase::kPrefill && n <= limits_.max_rows && heads <= limits_.heads && head_dim <= limits_.head_dim,
          "key_weights: {} rows of {} heads by {}, the limits are {}, {} and {}, in a prefill", n, heads, head_dim,
          limits_.max_rows, limits_.heads, limits_.head_dim);
    check_operand("key_weights", "q", q, DType::kF32, Shape{n, heads * head_dim});
    check_operand("key_weights", "totals", totals, DType::kF32, Shape{n, heads, 2});
    check_operand("key_weights", "kv_of_head", kv_of_head, DType::kI32, Shape{heads});
    check_operand("key_weights", "slots", rows.slots, DType::kI32, Shape{n});
    check_operand("key_weights", "sequences", rows.sequences, DType::kI32, Shape{n});
    check_operand("key_weights", "sums", sums, DType::kF32, Shape{heads, sums.cols()});
    check(rows.max_slots <= sums.cols(), "key_weights: {} slots, sums have {} columns", rows.max_slots, sums.cols());
    if (n > 0) do_key_weights(sums, q, totals, kv, kv_of_head, rows);
}

void Kernels::expected_weights(const Tensor& weights, const Tensor& norms, const Tensor& q, const LayerKv& kv,
                               const Tensor& kv_of_head) {
    check_kv("expected_weights", kv);
    check_places("expected_weights", kv, phase_);
    check_rank("expected_weights", "kv_of_head", kv_of_head, 1);
    check_rank("expected_weights", "weights", weights, 2);
    check_rank("expected_weights", "q", q, 2);
    const int64_t heads = kv_of_head.rows(), slots = weights.cols(), head_dim = kv.layout.head_dim;
    check(phase_ == Phase::kPrefill && heads <= limits_.heads && head_dim <= limits_.head_dim && q.rows() > 0,
          "expected_weights: {} rows of {} heads by {}, the limits are {} and {}, in a prefill", q.rows(), heads,
          head_dim, limits_.heads, limits_.head_dim);
    check_operand("expected_weights", "q", q, DType::kF32, Shape{q.rows(), heads * head_dim});
    check_operand("expected_weights", "kv_of_head", kv_of_head, DType::kI32, Shape{heads});
    check_operand("expected_weights", "weights", weights, DType::kF32, Shape{heads, slots});
    check_operand("expected_weights", "norms", norms, DType::kF32, Shape{kv.layout.kv_heads, slots});
    check(!kv.angles || slots <= kv.angles.rows(), "expected_weights: {} slots, there are angles for {}", slots,
          kv.angles ? kv.angles.rows() : 0);
    if (slots > 0) do_expected_weights(weights, norms, q, kv, kv_of_head);
}

void Kernels::pool_weights(const Tensor& out, const Tensor& weights, const Tensor& tops, const Tensor& totals,
                           const Tensor& kv_of_head, const Tensor& shares, const WeightPool& pool) {
    check_rank("pool_weights", "out", out, 3);
    check_rank("pool_weights", "weights", weights, 3);
    check_rank("pool_weights", "kv_of_head", kv_of_head, 1);
    const int64_t owners = out.dim(0), heads = kv_of_head.rows();
    check_operand("pool_weights", "out", out, DType::kF32, out.shape());
    check_operand("pool_weights", "weights", weights, DType::kF32, Shape{owners, heads, weights.dim(2)});
    check(out.contiguous() && weights.contiguous() && out.dim(2) <= weights.dim(2),
          "pool_weights: {} of weights {}, contiguous", out.shape(), weights.shape());
    if (tops) {
        check_operand("pool_weights", "tops", tops, DType::kF32, Shape{owners, heads, tops.dim(2)});
        check_operand("pool_weights", "totals", totals, DType::kF32, Shape{owners, heads, 2});
        check(tops.dim(2) * kTileTokens >= out.dim(2), "pool_weights: {} slots, tops of {} tiles", out.dim(2),
              tops.dim(2));
    }
    check_operand("pool_weights", "kv_of_head", kv_of_head, DType::kI32, Shape{heads});
    check_operand("pool_weights", "shares", shares, DType::kF32, Shape{heads});
    if (pool.counts) {
        check_operand("pool_weights", "counts", pool.counts, DType::kI32, Shape{owners, out.dim(1)});
        check(pool.counts.contiguous(), "pool_weights: counts have a row stride of {}", pool.counts.stride());
    }
    if (out.shape().elements() > 0) do_pool_weights(out, weights, tops, totals, kv_of_head, shares, pool);
}

namespace {

void check_slots(const char* op, const SlotKv& kv, const SlotRule& rule) {
    const KvLayout& l = kv.layout;
    check_rank(op, "tiles", kv.tiles, 3);
    check_rank(op, "ranks", kv.ranks, 3);
    const Shape slots{kv.owners(), l.kv_heads, kv.slots()}, heads{kv.owners(), l.kv_heads};
    check_operand(op, "tiles", kv.tiles, DType::kI64, Shape{kv.owners(), l.kv_heads, kv.tiles.dim(2)});
    const Shape staged{kv.owners(), l.kv_heads, kMaxRows, l.head_dim};
    check_operand(op, "staged_k", kv.staged_k, l.k_type, staged);
    check_operand(op, "staged_v", kv.staged_v, l.v_type, staged);
    check_operand(op, "tokens", kv.tokens, DType::kI32, slots);
    check_operand(op, "ranks", kv.ranks, DType::kI32, slots);
    check_operand(op, "scores", kv.scores, DType::kF32, slots);
    check_operand(op, "counts", kv.counts, DType::kI32, heads);
    check_operand(op, "budgets", kv.budgets, DType::kI32, heads);
    check(rule.recent >= 1 && rule.pool % 2 == 1, "{}: {} recent tokens, the mean of {} neighbours", op, rule.recent,
          rule.pool);
}

void check_call(const char* op, const SlotKv& kv, const Tensor& order, const SlotCall& call) {
    check_operand(op, "order", order, DType::kI32, Shape{kv.layout.kv_heads, kv.slots()});
    check(call.owner >= 0 && call.owner < kv.owners() && call.cached >= 0 && call.fresh >= 0 && call.first_token >= 0,
          "{}: {} fresh entries after {}, token {} of owner {}", op, call.fresh, call.cached, call.first_token,
          call.owner);
}

void check_entries(const char* op, const SlotKv& kv, const LayerKv& entries, const Tensor& order,
                   const SlotCall& call) {
    check_kv(op, entries);
    check(entries.layout == kv.layout, "{}: entries of another layout than the slots", op);
    check_call(op, kv, order, call);
}

}  // namespace

void Kernels::slot_step(const SlotKv& kv, const Tensor& weights, const SlotRule& rule, int64_t token) {
    check_slots("slot_step", kv, rule);
    check(static_cast<bool>(weights) == rule.counts_all(), "slot_step: weights are {}required",
          rule.counts_all() ? "" : "not ");
    if (weights) {
        check_operand("slot_step", "weights", weights, DType::kF32,
                      Shape{kv.owners(), kv.layout.kv_heads, kv.slots() + 1});
    }
    if (kv.owners() > 0) do_slot_step(kv, weights, rule, token);
}

void Kernels::slot_gather(const LayerKv& to, const SlotKv& kv, const Tensor& order, const SlotCall& call) {
    check_slots("slot_gather", kv, {});
    check_entries("slot_gather", kv, to, order, call);
    check_operand("slot_gather", "begins", to.begins, DType::kI32, Shape{kv.layout.kv_heads});
    do_slot_gather(to, kv, order, call);
}

void Kernels::slot_scores(const Tensor& scores, const SlotKv& kv, const LayerKv& from, const Tensor& order,
                          const Tensor& weights, const SlotRule& rule, const SlotCall& call) {
    check_slots("slot_scores", kv, rule);
    check_entries("slot_scores", kv, from, order, call);
    const Shape entries{kv.layout.kv_heads, call.entries()};
    check_operand("slot_scores", "scores", scores, DType::kF32, entries);
    const bool wanted = (rule.counts_all() && call.fresh > 0) || rule.by == ScoreBy::kWindow;
    check(static_cast<bool>(weights) == wanted, "slot_scores: weights are {}required", wanted ? "" : "not ");
    if (weights) check_operand("slot_scores", "weights", weights, DType::kF32, entries);
    if (entries.elements() > 0) do_slot_scores(scores, kv, from, order, weights, rule, call);
}

void Kernels::slot_keys(const Tensor& keys, const SlotKv& kv, const Tensor& order, const Tensor& scores,
                        const SlotRule& rule, const SlotCall& call) {
    check_slots("slot_keys", kv, rule);
    check_call("slot_keys", kv, order, call);
    const Shape entries{kv.layout.kv_heads, call.entries()};
    check_operand("slot_keys", "scores", scores, DType::kF32, entries);
    check_operand("slot_keys", "keys", keys, DType::kI64, entries);
    if (entries.elements() > 0) do_slot_keys(keys, kv, order, scores, rule, call);
}

void Kernels::slot_share(const SlotKv& kv, const Tensor& tiles, const Tensor& keys, const Tensor& rows,
                         const Tensor& largest, const SlotShare& share, const SlotRule& rule, const SlotCall& call) {
    check_slots("slot_share", kv, rule);
    check_rank("slot_share", "tiles", tiles, 2);
    check_rank("slot_share", "keys", keys, 2);
    check_rank("slot_share", "rows", rows, 1);
    const KvLayout& l = kv.layout;
    const int64_t heads = rows.rows();
    const Shape tile{tiles.rows(), static_cast<int64_t>(l.tile_bytes()) / std::max<int64_t>(1, l.kv_heads)};
    check_operand("slot_share", "tiles", tiles, DType::kU8, tile);
    check_operand("slot_share", "keys", keys, DType::kI64, Shape{keys.rows(), call.entries()});
    check_operand("slot_share", "rows", rows, DType::kI32, Shape{heads});
    check_operand("slot_share", "largest", largest, DType::kI32, Shape{kv.owners()});
    check(rule.first_head >= 0 && rule.first_head + l.kv_heads <= heads && heads <= kMostSharing && call.owner >= 0 &&
              call.owner < kv.owners() && share.least >= 0 && share.least + rule.recent <= share.tokens - call.reserve,
          "slot_share: heads {} to {} of {} share {} tokens each less {}, at least {} and {} recent ones",
          rule.first_head, rule.first_head + l.kv_heads, heads, share.tokens, call.reserve, share.least, rule.recent);
    if (heads > 0) do_slot_share(kv, tiles, keys, rows, largest, share, rule, call);
}

void Kernels::slot_choose(const SlotKv& kv, const LayerKv& from, const Tensor& order, const Tensor& scores,
                          const Tensor& keys, const SlotRule& rule, const SlotCall& call) {
    check_slots("slot_choose", kv, rule);
    check_entries("slot_choose", kv, from, order, call);
    check_operand("slot_choose", "scores", scores, DType::kF32, Shape{kv.layout.kv_heads, call.entries()});
    check_operand("slot_choose", "keys", keys, DType::kI64, Shape{kv.layout.kv_heads, 2 * call.entries()});
    if (call.entries() > 0) do_slot_choose(kv, from, order, scores, keys, rule, call);
}

Registry<KernelsMaker>& kernels_makers() {
    static Registry<KernelsMaker> makers;
    return makers;
}

size_t kernel_scratch(std::string_view backend, Phase phase, const KernelLimits& limits, int threads) {
    if (backend == "cpu") return cpu_scratch(phase, limits, threads);
    return gpu::scratch_bytes(phase, limits) + (phase == Phase::kPrefill ? gpu::kMultiplyWorkspace : 0);
}

bool multiplies(std::string_view backend, ActivationType as) {
    if (backend != "cpu") return as == ActivationType::kF32 || as == ActivationType::kF16;
    return interleaves(as) ? byte_dots() != ByteDots::kNone : as != ActivationType::kF16;
}

ActivationType fastest_activations(std::string_view backend, bool interleaved) {
    if (backend != "cpu") return ActivationType::kF16;
    if (interleaved && byte_dots() != ByteDots::kNone) return ActivationType::kQ16;
    return bf16_dots() ? ActivationType::kBF16 : ActivationType::kF32;
}

bool multiplies_bf16_faster(std::string_view backend) {
    return backend == "cpu" && bf16_dots();
}

std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits) {
    if (device.backend() == "cpu") return std::make_unique<CpuKernels>(device, cpu(stream), phase, limits);
    const KernelsMaker maker = kernels_makers().find(device.backend());
    check(maker != nullptr, "make_kernels: no kernels for device {}", device.name());
    return maker(device, stream, phase, limits);
}

}  // namespace trireme
