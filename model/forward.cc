// The layers of the forward pass, for decode and prefill alike: one statement is one kernel, one copy or one
// collective.

#include "model/level.h"

namespace trireme {

// qkv = (rope(norm(Wq h + b)), rope(norm(Wk h + b)), Wv h + b),  h = norm(x), with biases and inner norms if the family
// has them;  an owner's keys and values are written to the view. A pass that does not write computes only the queries.
void Level::project(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& x, bool writes) {
    const LayerWeights& w = layer_weights(layer);
    const int64_t rows = batch.rows, kv_cols = shard_.n_kv_heads * config_.head_dim;
    const Tensor h = s_.h.first_rows(rows), q = queries(rows);
    const Tensor wqkv = writes ? w.wqkv : w.wqkv.first_rows(q.cols());
    const Tensor qkv = s_.qkv.first_rows(rows).slice_cols(0, wqkv.rows());

    op.rmsnorm(h, x, w.attn_norm, static_cast<float>(config_.norm_eps));
    op.matmul(qkv, h, wqkv);
    if (w.qkv_bias) op.add(qkv, w.qkv_bias.slice_cols(0, qkv.cols()));
    if (w.q_norm) op.rmsnorm(q, q, w.q_norm, static_cast<float>(config_.norm_eps));
    op.rope(q, batch.cos_sin, config_.head_dim);
    if (!writes || !map_.owns(layer)) return;
    store(op, layer, batch, qkv.slice_cols(q.cols(), kv_cols), qkv.slice_cols(q.cols() + kv_cols, kv_cols));
}

// Writes an owner's (rope(Wk h), Wv h),  h = norm(x),  to the view: all that a layer computes for rows whose outputs
// are not needed.
void Level::project_keys(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& x) {
    const LayerWeights& w = layer_weights(layer);
    const int64_t rows = batch.rows, q_cols = queries(rows).cols(), kv_cols = shard_.n_kv_heads * config_.head_dim;
    const Tensor h = s_.h.first_rows(rows), kv = s_.qkv.first_rows(rows).slice_cols(q_cols, 2 * kv_cols);

    op.rmsnorm(h, x, w.attn_norm, static_cast<float>(config_.norm_eps));
    op.matmul(kv, h, w.wqkv.slice_rows(q_cols, 2 * kv_cols));
    if (w.qkv_bias) op.add(kv, w.qkv_bias.slice_cols(q_cols, 2 * kv_cols));
    store(op, layer, batch, kv.slice_cols(0, kv_cols), kv.slice_cols(kv_cols, kv_cols));
}

void Level::store(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& k, const Tensor& v) {
    const LayerWeights& w = layer_weights(layer);
    if (w.k_norm) op.rmsnorm(k, k, w.k_norm, static_cast<float>(config_.norm_eps));
    if (!view_->rotates()) op.rope(k, batch.cos_sin, config_.head_dim);
    view_->write(op, map_.number(layer), k, v, batch.view,
                 measures_ && map_.read_from_below(layer) ? s_.change.first_rows(batch.rows) : Tensor());
}

// att = softmax(q k^T / sqrt(head_dim)) v  over those of the owner's keys and values that the view shows.
void Level::attention(Kernels& op, LayerIndex layer, const Batch& batch) {
    const int64_t window = map_.windowed(layer) ? config_.sliding_window : kEverySlot;
    view_->attend(op, map_.reads(layer),
                  {s_.att.first_rows(batch.rows), queries(batch.rows), weights_.kv_of_head,
                   batch.seen(config_.strict(layer), window), layer});
}

// x += Wo att + b.  A rank holds some heads, so Wo gives a partial sum; the bias is added once, to the whole sum.
void Level::output_projection(Kernels& op, LayerIndex layer, const Tensor& x) {
    const Tensor h = s_.h.first_rows(x.rows());

    const LayerWeights& w = layer_weights(layer);
    op.matmul(h, s_.att.first_rows(x.rows()), w.wo);
    comm_.all_reduce(*compute_, h);
    if (w.o_bias) op.add(h, w.o_bias);
    op.add(x, h);
}

// x += Wdown (silu(Wgate h) * Wup h),  h = norm(x).  A rank holds some columns, so Wdown gives a partial sum.
void Level::feed_forward(Kernels& op, LayerIndex layer, const Tensor& x) {
    const LayerWeights& w = layer_weights(layer);
    const int64_t rows = x.rows();
    const Tensor h = s_.h.first_rows(rows);

    op.rmsnorm(h, x, w.ffn_norm, static_cast<float>(config_.norm_eps));
    op.matmul(s_.gate_up.first_rows(rows), h, w.gate_up);
    op.swiglu(s_.act.first_rows(rows), s_.gate_up.first_rows(rows));
    op.matmul(h, s_.act.first_rows(rows), w.down);
    comm_.all_reduce(*compute_, h);
    op.add(x, h);
}

// logits = lm_head norm(x) of at most kMaxRows rows, on every rank's device. The decode kernels always compute them.
void Level::head(const Tensor& x) {
    const int64_t rows = x.rows();
    const Tensor last = s_.last.first_rows(rows), part = s_.part.first_rows(rows);

    decode_op_->rmsnorm(last, x, weights_.final_norm, static_cast<float>(config_.norm_eps));
    decode_op_->matmul(part.slice_cols(0, shard_.vocab), last, weights_.lm_head);
    if (shard_.ranks > 1) comm_.all_gather(*compute_, gathered(), part);
}

}  // namespace trireme
