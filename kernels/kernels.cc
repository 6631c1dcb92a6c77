#include "kernels/kernels.h"

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cuda/scratch.h"

namespace trireme {
namespace {

/// Names the operand that is wrong: "matmul: x is f16 [3, 4], wanted f32 [3, 8]".
void check_operand(const char* op, const char* operand, const Tensor& t, DType type, const Shape& shape) {
    check(t.dtype() == type && t.shape() == shape && (t || shape.elements() == 0), "{}: {} is {} {}{}, wanted {} {}",
          op, operand, t ? "" : "null ", name_of(t.dtype()), t.shape(), name_of(type), shape);
}

void check_rank(const char* op, const char* operand, const Tensor& t, int rank) {
    check(t.shape().rank() == rank, "{}: {} has shape {}, wanted {} dimensions", op, operand, t.shape(), rank);
}

void check_weight_type(const char* op, const char* operand, const Tensor& t) {
    check(t.dtype() == DType::kF32 || t.dtype() == DType::kF16 || t.dtype() == DType::kBF16,
          "{}: {} is {}, wanted f32, f16 or bf16", op, operand, name_of(t.dtype()));
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
          "{}: tiles are {} {}, wanted i64 [sequences, tiles]", op, name_of(kv.tiles.dtype()), kv.tiles.shape());
    for (const DType type : {l.k_type, l.v_type}) {
        check(type == DType::kF32 || type == DType::kF16 || type == DType::kBF16,
              "{}: KV is {}, wanted f32, f16 or bf16", op, name_of(type));
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

void Kernels::embed(const Tensor& out, const Tensor& table, const Tensor& ids) {
    check_rank("embed", "ids", ids, 1);
    check_rank("embed", "table", table, 2);
    check_weight_type("embed", "table", table);
    check_operand("embed", "ids", ids, DType::kI32, Shape{ids.rows()});
    check_operand("embed", "out", out, DType::kF32, Shape{ids.rows(), table.dim(1)});
    if (out.rows() > 0) do_embed(out, table, ids);
}

void Kernels::rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps) {
    check_rank("rmsnorm", "x", x, 2);
    check_operand("rmsnorm", "x", x, DType::kF32, x.shape());
    check_operand("rmsnorm", "out", out, DType::kF32, x.shape());
    check_operand("rmsnorm", "weight", weight, DType::kF32, Shape{x.cols()});
    if (out.rows() > 0) do_rmsnorm(out, x, weight, eps);
}

void Kernels::matmul(const Tensor& out, const Tensor& x, const Tensor& w) {
    check_rank("matmul", "w", w, 2);
    check_rank("matmul", "x", x, 2);
    check_weight_type("matmul", "w", w);
    check(w.contiguous(), "matmul: w has a row stride of {}, wanted {}", w.stride(), w.cols());
    check_operand("matmul", "x", x, DType::kF32, Shape{x.rows(), w.dim(1)});
    check_operand("matmul", "out", out, DType::kF32, Shape{x.rows(), w.dim(0)});
    check(x.rows() <= limits_.max_rows && w.dim(1) <= limits_.max_k && w.dim(0) <= limits_.max_n,
          "matmul: {} rows by w {}, the limits are {} rows and [{}, {}]", x.rows(), w.shape(), limits_.max_rows,
          limits_.max_n, limits_.max_k);
    if (out.shape().elements() == 0) return;
    check(!overlap(out, x), "matmul: out and x overlap");
    do_matmul(out, x, w);
}

void Kernels::rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim) {
    check_rank("rope", "x", x, 2);
    check(head_dim > 0 && head_dim % 8 == 0 && x.cols() % head_dim == 0,
          "rope: head_dim {} in rows of {}, wanted a multiple of 8 that divides them", head_dim, x.cols());
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

void Kernels::kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) {
    check_kv("kv_append", kv);
    check_new_rows("kv_append", kv, k, v);
    check_operand("kv_append", "slots", rows.slots, DType::kI32, Shape{k.rows()});
    check_operand("kv_append", "sequences", rows.sequences, DType::kI32, Shape{k.rows()});
    if (k.rows() > 0) do_kv_append(kv, k, v, rows);
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
                        const RowsView& rows, const TileRange& part) {
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
        check(n <= kMaxRows, "attention: {} rows, at most {} in a decode forward", n, kMaxRows);
        check_staged("attention", kv);
        check_decode_rows("attention", rows, n);
    }
    check(part.first >= 0 && part.first < part.end, "attention: tiles [{}, {})", part.first, part.end);
    check(phase_ == Phase::kDecode || (part.first == 0 && part.end == kEveryTile),
          "attention: a prefill attends tiles [{}, {}) only", part.first, part.end);
    if (out.shape().elements() > 0) do_attention(out, q, kv, kv_of_head, rows, part);
}

void Kernels::swiglu(const Tensor& out, const Tensor& gate_up) {
    check_rank("swiglu", "out", out, 2);
    check_operand("swiglu", "out", out, DType::kF32, out.shape());
    check_operand("swiglu", "gate_up", gate_up, DType::kF32, Shape{out.rows(), 2 * out.cols()});
    if (out.rows() > 0) do_swiglu(out, gate_up);
}

void Kernels::add(const Tensor& x, const Tensor& y) {
    check_rank("add", "x", x, 2);
    check_operand("add", "x", x, DType::kF32, x.shape());
    check_operand("add", "y", y, DType::kF32, x.shape());
    if (x.rows() > 0) do_add(x, y);
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
                     const SamplingRule& rule, const Tensor& laws, const Tensor& ends) {
    check_logits("sample", logits, vocab, limits_);
    const int64_t rows = logits.dim(1);
    if (laws.data() != nullptr) check_operand("sample", "laws", laws, DType::kI64, Shape{rows, kRowLawWords});
    int64_t drawn = rows;
    if (ends.data() != nullptr) {
        check_operand("sample", "ends", ends, DType::kI32, Shape{rows});
        drawn = ids.rows();
        check(drawn <= kMaxRows, "sample: {} siblings, at most {}", drawn, kMaxRows);
    }
    if (ids.data() != nullptr || laws.data() == nullptr || ends.data() != nullptr) {
        check_operand("sample", "ids", ids, DType::kI32, Shape{drawn});
        check_operand("sample", "uniforms", uniforms, DType::kI64, Shape{drawn});
    }
    if (rows > 0) do_sample(ids, logits, vocab, uniforms, rule, laws, ends);
}

void Kernels::accept(const Tensor& out, const Tensor& logits, const Tensor& laws, const Tensor& proposals,
                     int64_t vocab) {
    check_logits("accept", logits, vocab, limits_);
    const int64_t rows = logits.dim(1);
    check_rank("accept", "proposals", proposals, 2);
    const int64_t n = proposals.rows();
    check(n >= 1 && n <= rows && rows <= kMaxRows, "accept: {} proposals in {} rows, want 1 to {} of them", n, rows,
          kMaxRows);
    check_operand("accept", "laws", laws, DType::kI64, Shape{rows, kRowLawWords});
    check_operand("accept", "proposals", proposals, DType::kI64, Shape{n, kProposalWords});
    check_operand("accept", "out", out, DType::kI32, Shape{n + 1});
    do_accept(out, logits, laws, proposals, vocab);
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
    check(means.contiguous() && tiles.first >= 0 && tiles.first <= tiles.end &&
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

Registry<KernelsMaker>& kernels_makers() {
    static Registry<KernelsMaker> makers;
    return makers;
}

size_t kernel_scratch(std::string_view backend, Phase phase, const KernelLimits& limits, int threads) {
    if (backend == "cpu") return cpu_scratch(phase, limits, threads);
    return gpu::scratch_bytes(limits) + (phase == Phase::kPrefill ? gpu::kMultiplyWorkspace : 0);
}

std::unique_ptr<Kernels> make_kernels(Device& device, Stream& stream, Phase phase, const KernelLimits& limits) {
    if (device.backend() == "cpu") return std::make_unique<CpuKernels>(device, cpu(stream), phase, limits);
    const KernelsMaker maker = kernels_makers().find(device.backend());
    check(maker != nullptr, "make_kernels: no kernels for device {}", device.name());
    return maker(device, stream, phase, limits);
}

}  // namespace trireme
