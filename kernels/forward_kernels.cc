#include "kernels/forward_kernels.h"

#include <algorithm>

#include "kernels/operand_checks.h"

namespace trireme {

namespace {

bool overlap(const Tensor& a, const Tensor& b) {
    const auto end = [](const Tensor& t) {
        return static_cast<char*>(t.data()) +
               static_cast<size_t>((t.rows() - 1) * t.stride() + t.cols()) * size_of(t.dtype());
    };
    return a.data() < end(b) && b.data() < end(a);
}

void check_staged(const char* op, const LayerKv& kv) {
    const KvLayout& l = kv.layout;
    check_operand(op, "staged_k", kv.staged_k, stored_type(l.k_type), l.staged_shape(l.k_type));
    check_operand(op, "staged_v", kv.staged_v, stored_type(l.v_type), l.staged_shape(l.v_type));
    check(kv.staged_k.contiguous() && kv.staged_v.contiguous(), "{}: staged rows are strided", op);
}

void check_decode_rows(const char* op, const RowsView& rows, int64_t n) {
    check_operand(op, "slots", rows.slots, DType::kI32, Shape{n});
    check_operand(op, "cached", rows.cached, DType::kI32, Shape{n});
    check_operand(op, "ancestors", rows.ancestors, DType::kI32, Shape{n, kMaxRows});
}

/// Products load 16 bytes of rounded rows at once, and whole pieces of k.
bool in_pieces(const Tensor& x) {
    return reinterpret_cast<uintptr_t>(x.data()) % 16 == 0 && x.stride() % 8 == 0 && x.cols() % 32 == 0;
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

void ForwardKernels::embed(const Tensor& out, const WeightMatrix& table, const Tensor& ids) {
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

Tensor ForwardKernels::input_of(const Tensor& x, const WeightMatrix& w) const {
    check_operand("input_of", "x", x, DType::kF32, Shape{x.rows(), w.cols()});
    const DType type = x.cols() > 0 ? input_type(w) : DType::kF32;
    const Tensor rounded(x.data(), type, x.shape(), type == DType::kF32 ? x.stride() : 2 * x.stride());
    return in_pieces(rounded) ? rounded : x;
}

void ForwardKernels::check_rounded(const char* op, const Tensor& out, const Shape& shape) const {
    const bool rounded = rounds() && (out.dtype() == DType::kF16 || out.dtype() == DType::kBF16);
    check_operand(op, "out", out, rounded ? out.dtype() : DType::kF32, shape);
}

void ForwardKernels::rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps) {
    check_rank("rmsnorm", "x", x, 2);
    check_operand("rmsnorm", "x", x, DType::kF32, x.shape());
    check_rounded("rmsnorm", out, x.shape());
    check_rank("rmsnorm", "weight", weight, 1);
    check_operand("rmsnorm", "weight", weight, DType::kF32, weight.shape());
    check(weight.rows() > 0 && x.cols() % weight.rows() == 0, "rmsnorm: {} columns in groups of {}", x.cols(),
          weight.rows());
    // A group's rounded output lies in the input of an earlier one.
    check(out.dtype() == DType::kF32 || weight.rows() == x.cols() || !overlap(out, x),
          "rmsnorm: groups over their input");
    if (out.shape().elements() > 0) do_rmsnorm(out, x, weight, eps);
}

void ForwardKernels::add_rmsnorm(const Tensor& out, const Tensor& x, const Tensor& y, const Tensor& weight, float eps) {
    check_rank("add_rmsnorm", "x", x, 2);
    check_operand("add_rmsnorm", "x", x, DType::kF32, x.shape());
    check_operand("add_rmsnorm", "y", y, DType::kF32, x.shape());
    check_operand("add_rmsnorm", "weight", weight, DType::kF32, Shape{x.cols()});
    check_rounded("add_rmsnorm", out, x.shape());
    check(!overlap(out, x) && !overlap(x, y), "add_rmsnorm: x overlaps y, or out");
    if (out.shape().elements() > 0) do_add_rmsnorm(out, x, y, weight, eps);
}

void ForwardKernels::check_product(const char* op, const Tensor& out, const Tensor& x, const WeightMatrix& w) const {
    check_rank(op, "x", x, 2);
    if (!w.blocks()) {
        check_rank(op, "w", w.plain(), 2);
        check_weight_type(op, "w", w.plain());
        check(w.plain().contiguous(), "{}: w has a row stride of {}, expected {}", op, w.plain().stride(), w.cols());
    }
    const DType type = x.dtype() == DType::kF32 ? DType::kF32 : input_type(w);
    check_operand(op, "x", x, type, Shape{x.rows(), w.cols()});
    check(type == DType::kF32 || in_pieces(x),
          "{}: rounded rows of {} elements, {} apart, which input_of() does not make", op, x.cols(), x.stride());
    check_operand(op, "out", out, DType::kF32, Shape{x.rows(), w.rows()});
    check(x.rows() <= limits_.max_rows && w.cols() <= limits_.max_k && w.rows() <= limits_.max_n,
          "{}: {} rows by w [{}, {}], the limits are {} rows and [{}, {}]", op, x.rows(), w.rows(), w.cols(),
          limits_.max_rows, limits_.max_n, limits_.max_k);
    check(out.shape().elements() == 0 || !overlap(out, x), "{}: out and x overlap", op);
    check(!w.blocks() || limits_.blocks, "{}: weights in blocks, which the limits exclude", op);
}

void ForwardKernels::matmul(const Tensor& out, const Tensor& x, const WeightMatrix& w) {
    check_product("matmul", out, x, w);
    if (out.shape().elements() == 0) return;
    if (w.blocks()) return do_matmul_blocks(out, x, w);
    do_matmul(out, x, w.plain());
}

void ForwardKernels::matmul_swiglu(const Tensor& out, const Tensor& gate_up, const Tensor& x, const WeightMatrix& w) {
    check_rank("matmul_swiglu", "out", out, 2);
    check_rounded("matmul_swiglu", out, out.shape());
    check_operand("matmul_swiglu", "gate_up", gate_up, DType::kF32, Shape{out.rows(), 2 * out.cols()});
    check_product("matmul_swiglu", gate_up, x, w);
    check(out.shape().elements() == 0 || (!overlap(out, x) && !overlap(out, gate_up)),
          "matmul_swiglu: out overlaps x or gate_up");
    if (out.shape().elements() > 0) do_matmul_swiglu(out, gate_up, x, w);
}

void ForwardKernels::rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim) {
    check_rank("rope", "x", x, 2);
    check(head_dim > 0 && head_dim % 8 == 0 && x.cols() % head_dim == 0,
          "rope: head_dim {} in rows of {}, expected a multiple of 8 that divides them", head_dim, x.cols());
    check_operand("rope", "x", x, DType::kF32, x.shape());
    check_operand("rope", "cos_sin", cos_sin, DType::kF32, Shape{x.rows(), head_dim});
    check_row_elements("rope", x.cols());
    if (x.rows() > 0) do_rope(x, cos_sin, head_dim);
}

void ForwardKernels::kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) {
    check_kv("kv_stage", kv);
    check_staged("kv_stage", kv);
    check_new_rows("kv_stage", kv, k, v);
    check(k.rows() <= kMaxRows, "kv_stage: {} rows, at most {} are staged", k.rows(), kMaxRows);
    check_decode_rows("kv_stage", rows, k.rows());
    if (k.rows() > 0) do_kv_stage(kv, k, v, rows);
}

void ForwardKernels::kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                               const Tensor& change) {
    check_kv("kv_append", kv);
    check_new_rows("kv_append", kv, k, v);
    check_operand("kv_append", "slots", rows.slots, DType::kI32, Shape{k.rows()});
    check_operand("kv_append", "sequences", rows.sequences, DType::kI32, Shape{k.rows()});
    if (change) check_operand("kv_append", "change", change, DType::kF32, Shape{k.rows(), 2});
    if (k.rows() > 0) do_kv_append(kv, k, v, rows, change);
}

void ForwardKernels::kv_keep(std::span<const LayerKv> layers, const Tensor& kept) {
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

void ForwardKernels::attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                               const RowsView& rows, const TileRange& part, const AttentionReport& report) {
    check_kv("attention", kv);
    check_rank("attention", "kv_of_head", kv_of_head, 1);
    check_rank("attention", "q", q, 2);
    const int64_t n = q.rows(), heads = kv_of_head.rows(), head_dim = kv.layout.head_dim;
    check(n <= limits_.max_rows && heads <= limits_.heads && head_dim <= limits_.head_dim,
          "attention: {} rows of {} heads by {}, the limits are {}, {} and {}", n, heads, head_dim, limits_.max_rows,
          limits_.heads, limits_.head_dim);
    check_operand("attention", "q", q, DType::kF32, Shape{n, heads * head_dim});
    check_rounded("attention", out, q.shape());
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

void ForwardKernels::swiglu(const Tensor& out, const Tensor& gate_up) {
    check_rank("swiglu", "out", out, 2);
    check_rounded("swiglu", out, out.shape());
    check_operand("swiglu", "gate_up", gate_up, DType::kF32, Shape{out.rows(), 2 * out.cols()});
    if (out.shape().elements() > 0) do_swiglu(out, gate_up);
}

void ForwardKernels::add(const Tensor& x, const Tensor& y) {
    check_rank("add", "x", x, 2);
    check_operand("add", "x", x, DType::kF32, x.shape());
    check_rank("add", "y", y, 2);
    check_operand("add", "y", y, DType::kF32, Shape{y.rows() == 1 ? 1 : x.rows(), x.cols()});
    if (x.shape().elements() > 0) do_add(x, y);
}

void ForwardKernels::gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) {
    check_rank("gather_rows", "x", x, 2);
    check_rank("gather_rows", "rows", rows, 1);
    check_operand("gather_rows", "x", x, DType::kF32, x.shape());
    check_operand("gather_rows", "rows", rows, DType::kI32, Shape{rows.rows()});
    check_operand("gather_rows", "out", out, DType::kF32, Shape{rows.rows(), x.cols()});
    if (out.rows() > 0) do_gather_rows(out, x, rows);
}

}  // namespace trireme
