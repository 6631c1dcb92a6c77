#pragma once
/// ForwardKernels: the operations of a forward pass. kernels.h says what all operations have in common.

#include <cstdint>
#include <span>

#include "kernels/kernel_limits.h"
#include "kernels/kv.h"
#include "kernels/weight_matrix.h"
#include "runtime/tensor.h"

namespace trireme {

class ForwardKernels {
  public:
    virtual ~ForwardKernels() = default;

    /// out[r] = table[ids[r]].  out f32 [rows, dim], table [vocab, dim], ids i32 [rows], each in [0, vocab).
    /// Blocks: rows of one type, no columns skipped; values are not rounded.
    void embed(const Tensor& out, const WeightMatrix& table, const Tensor& ids);
    /// The memory of x, f32 [rows, k], as products with w read their input: x itself; or, in a decode forward of a GPU
    /// with weights of 16 bits, rows of that type in the first halves of x's rows. Norms, attention and SwiGLU round
    /// their output to such rows. The bits are those of a product that rounds x.
    Tensor input_of(const Tensor& x, const WeightMatrix& w) const;
    /// out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight.  out [rows, groups * n] f32 or as input_of(), x f32 (may be
    /// the same), weight f32 [n]: each group of n columns has a mean of its own (QK norm: a head is a group).
    void rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps);
    /// x += y; out = rmsnorm(x).  x, y f32 [rows, n]; weight [n]; out's rows may lie in y's.
    void add_rmsnorm(const Tensor& out, const Tensor& x, const Tensor& y, const Tensor& weight, float eps);
    /// out = x w^T.  out f32 [rows, n], x [rows, k] f32 or as input_of(), w [n, k]: plain and contiguous, or blocks
    /// that the backend multiplies(); k = 0 gives zeros. out and x do not overlap.
    void matmul(const Tensor& out, const Tensor& x, const WeightMatrix& w);
    /// gate_up = x w^T; out = swiglu(gate_up).  gate_up f32 [rows, 2n] is scratch; a backend may leave it as it was.
    void matmul_swiglu(const Tensor& out, const Tensor& gate_up, const Tensor& x, const WeightMatrix& w);
    /// Rotates pairs (i, i + head_dim/2) of every head, in place.  x f32 [rows, heads * head_dim];
    /// cos_sin f32 [rows, head_dim]: cosines of the pairs, then sines.
    void rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim);
    /// Decode: rounds k, v f32 [rows, kv_heads * head_dim] into staged rows. The staged row of row r is its last
    /// ancestor.
    void kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows);
    /// Prefill: rounds k, v of consecutive rows into their tiles, at rows.slots. Optional `change` f32 [rows, 2] is
    /// raised to the largest difference between old and new elements of the row's key, and of its value.
    void kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                   const Tensor& change = {});
    /// Copies staged row kept[i, 0] to slot kept[i, 1] of sequence kept[i, 2], in every layer.  kept i32 [n, 3]. All
    /// layers have one layout, and tile tables of one shape. `layers` must not change until the operation is over.
    void kv_keep(std::span<const LayerKv> layers, const Tensor& kept);
    /// out[r] = sum_i softmax_i(q[r] . k_i / sqrt(head_dim)) v_i, for the keys i that RowsView gives; query head h
    /// reads KV head kv_of_head[h].  q f32 [rows, heads * head_dim], out f32 or as input_of(); kv_of_head i32 [heads],
    /// non-decreasing.
    /// Each tile of 256 slots, or run of tiles at fixed indices, gives (max, sum, accumulator), merged in order.
    ///
    /// Decode rows may be attended in parts, as tiles arrive. The parts of a row follow each other from tile 0 on, each
    /// with a table of its own tiles. Between them this object may run only gather_chunks and the parts of other rows.
    /// RowsView::first_row identifies a row. The part that holds a row's last slot writes its result. Rows of several
    /// sequences with the same first tiles may be attended there as rows of one sequence. The bits do not depend on the
    /// parts. With `report` all tiles are attended in one part, and the outputs that it names are written.
    void attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                   const RowsView& rows, const TileRange& part = {}, const AttentionReport& report = {});
    /// out = silu(gate) * up.  gate_up f32 [rows, 2n]: gate in the first n columns; out [rows, n] f32 or as input_of().
    void swiglu(const Tensor& out, const Tensor& gate_up);
    /// x += y.  x f32 [rows, n]; y f32 [rows, n], or [1, n], which is added to every row (a bias).
    void add(const Tensor& x, const Tensor& y);
    /// out[i] = x[rows[i]].  f32; rows i32 [n].
    void gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows);

  protected:
    ForwardKernels(Phase phase, const KernelLimits& limits) : phase_(phase), limits_(limits) {}

  private:
    /// Whether outputs may be of 16 bits; the type in which products with w read their input.
    virtual bool rounds() const { return false; }
    virtual DType input_type(const WeightMatrix& /*w*/) const { return DType::kF32; }
    /// Checks an output that may be as input_of().
    void check_rounded(const char* op, const Tensor& out, const Shape& shape) const;
    void check_product(const char* op, const Tensor& out, const Tensor& x, const WeightMatrix& w) const;
    virtual void do_embed(const Tensor& out, const Tensor& table, const Tensor& ids) = 0;
    virtual void do_embed_blocks(const Tensor& out, const WeightMatrix& table, const Tensor& ids) = 0;
    virtual void do_rmsnorm(const Tensor& out, const Tensor& x, const Tensor& weight, float eps) = 0;
    virtual void do_add_rmsnorm(const Tensor& out, const Tensor& x, const Tensor& y, const Tensor& weight, float eps) {
        do_add(x, y);
        do_rmsnorm(out, x, weight, eps);
    }
    virtual void do_matmul(const Tensor& out, const Tensor& x, const Tensor& w) = 0;
    /// Errors: Exit::kInternal where the backend does not multiply blocks.
    virtual void do_matmul_blocks(const Tensor& out, const Tensor& x, const WeightMatrix& w) = 0;
    virtual void do_matmul_swiglu(const Tensor& out, const Tensor& gate_up, const Tensor& x, const WeightMatrix& w) {
        matmul(gate_up, x, w);
        swiglu(out, gate_up);
    }
    virtual void do_rope(const Tensor& x, const Tensor& cos_sin, int64_t head_dim) = 0;
    virtual void do_kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) = 0;
    virtual void do_kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                              const Tensor& change) = 0;
    virtual void do_kv_keep(std::span<const LayerKv> layers, const Tensor& kept) = 0;
    virtual void do_attention(const Tensor& out, const Tensor& q, const LayerKv& kv, const Tensor& kv_of_head,
                              const RowsView& rows, const TileRange& part, const AttentionReport& report) = 0;
    virtual void do_swiglu(const Tensor& out, const Tensor& gate_up) = 0;
    virtual void do_add(const Tensor& x, const Tensor& y) = 0;
    virtual void do_gather_rows(const Tensor& out, const Tensor& x, const Tensor& rows) = 0;

    Phase phase_;
    KernelLimits limits_;
};

}  // namespace trireme
