#include "model/layers.h"

namespace trireme {

// A layer, for decode and prefill. A decode forward with graphs runs its parts one by one (DecodeSteps).
void Layers::layer(Kernels& op, LayerIndex layer, const Batch& batch, Residual& x, bool writes) {
    project(op, layer, batch, x, writes);
    attention(op, layer, batch);
    output_projection(op, layer, x);
    feed_forward(op, layer, x);
}

// qkv = (rope(norm(Wq h + b)), rope(norm(Wk h + b)), Wv h + b),  h = norm(x), with biases and inner norms if the family
// has them;  an owner's keys and values are written to the cache. A pass that does not write computes only the queries.
void Layers::project(Kernels& op, LayerIndex layer, const Batch& batch, Residual& x, bool writes) {
    const LayerWeights& w = layer_weights(layer);
    const Activations a = s_.rows(batch.rows);
    const bool all = writes && map_.owns(layer), keys = all && !cache_.facts().rotates;
    const Tensor qkv = all ? a.qkv : a.q, h = op.input_of(a.h, w.wqkv), k = a.kv.slice_cols(0, a.kv.cols() / 2);

    x.norm(op, h, w.attn_norm, eps());
    op.matmul(qkv, h, w.wqkv.first_rows(qkv.cols()));
    if (w.qkv_bias) op.add(qkv, w.qkv_bias.slice_cols(0, qkv.cols()));
    if (w.q_norm) op.rmsnorm(a.q, a.q, w.q_norm, eps());
    if (w.k_norm && all) op.rmsnorm(k, k, w.k_norm, eps());
    op.rope(keys ? a.qkv.slice_cols(0, a.q.cols() + k.cols()) : a.q, batch.cos_sin, config_.head_dim);
    if (all) write(op, layer, batch, a.kv);
}

// Writes an owner's (rope(norm(Wk h + b)), Wv h + b),  h = norm(x),  to the cache: all that a layer computes for rows
// whose outputs are not needed.
void Layers::project_keys(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& x) {
    const LayerWeights& w = layer_weights(layer);
    const Activations a = s_.rows(batch.rows);
    const Tensor h = op.input_of(a.h, w.wqkv), k = a.kv.slice_cols(0, a.kv.cols() / 2);

    op.rmsnorm(h, x, w.attn_norm, eps());
    op.matmul(a.kv, h, w.wqkv.slice_rows(a.q.cols(), a.kv.cols()));
    if (w.qkv_bias) op.add(a.kv, w.qkv_bias.slice_cols(a.q.cols(), a.kv.cols()));
    if (w.k_norm) op.rmsnorm(k, k, w.k_norm, eps());
    if (!cache_.facts().rotates) op.rope(k, batch.cos_sin, config_.head_dim);
    write(op, layer, batch, a.kv);
}

void Layers::write(Kernels& op, LayerIndex layer, const Batch& batch, const Tensor& kv) {
    const int64_t cols = kv.cols() / 2;
    cache_.write(op, map_.number(layer), kv.slice_cols(0, cols), kv.slice_cols(cols, cols), batch.cache,
                 compares_ && map_.read_from_below(layer) ? s_.change.first_rows(batch.rows) : Tensor());
}

// att = softmax(q k^T / sqrt(head_dim)) v  over those of the owner's keys and values that the cache shows.
void Layers::attention(Kernels& op, LayerIndex layer, const Batch& batch) {
    const Activations a = s_.rows(batch.rows);
    const int64_t window = map_.windowed(layer) && cache_.facts().in_order ? config_.sliding_window : kEverySlot;

    cache_.attend(op, map_.reads(layer),
                  {op.input_of(a.att, layer_weights(layer).wo), a.q, weights_.kv_of_head,
                   batch.seen(config_.strict(layer), window), layer});
}

// x += Wo att + b.  A rank holds some heads, so Wo gives a partial sum; the bias is added once, to the whole sum.
void Layers::output_projection(Kernels& op, LayerIndex layer, Residual& x) {
    const LayerWeights& w = layer_weights(layer);
    const Activations a = s_.rows(x.rows());

    op.matmul(a.h, op.input_of(a.att, w.wo), w.wo);
    comm_.all_reduce(stream_, a.h);
    if (w.o_bias) op.add(a.h, w.o_bias);
    x.add(a.h);
}

// x += Wdown (silu(Wgate h) * Wup h),  h = norm(x).  A rank holds some columns, so Wdown gives a partial sum.
void Layers::feed_forward(Kernels& op, LayerIndex layer, Residual& x) {
    const LayerWeights& w = layer_weights(layer);
    const Activations a = s_.rows(x.rows());

    const Tensor h = op.input_of(a.h, w.gate_up), act = op.input_of(a.act, w.down);

    x.norm(op, h, w.ffn_norm, eps());
    op.matmul_swiglu(act, a.gate_up, h, w.gate_up);
    op.matmul(a.h, act, w.down);
    comm_.all_reduce(stream_, a.h);
    x.add(a.h);
}

}  // namespace trireme
