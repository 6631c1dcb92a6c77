#include "model/llama.h"

#include <algorithm>
#include <cstring>

#include "model/footprint.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

Residency residency_of(const LlamaOptions& options, const std::vector<int64_t>& owner_of_layer) {
    Residency r = options.residency;
    r.reads = owner_of_layer;
    return r;
}

}  // namespace

Llama::Llama(Device& device, Comm& comm, const WeightSource& source, const LlamaOptions& options,
             const Progress& progress)
    : config_(source.config()),
      shard_(make_shard(config_.n_heads, config_.n_kv_heads, config_.ffn_dim, config_.vocab, comm.rank(), comm.size())),
      comm_(comm),
      compute_(device.make_stream("compute")),
      weights_(device, *compute_, source, shard_, options.weights, progress),
      owner_of_layer_(owners_of_layers(config_)),
      kv_(device, *compute_, kv_shape(config_, shard_, options), residency_of(options, owner_of_layer_)),
      s_(device, config_, shard_),
      decode_op_(make_kernels(device, *compute_, Phase::kDecode, kernel_limits(config_, shard_, kMaxRows))),
      prefill_op_(make_kernels(device, *compute_, Phase::kPrefill, kernel_limits(config_, shard_, kPrefillRows))),
      rope_(config_.rope, config_.head_dim),
      decode_batch_(device, *compute_, rope_, config_.head_dim, kMaxRows),
      // Layer by layer every chunk's batch is used again and again: all of them stay.
      prefill_batch_(device, *compute_, rope_, config_.head_dim, kPrefillRows,
                     kv_.streamed_layers() > 0 ? prefill_chunks(kv_.shape().context) : 1),
      kv_of_head_(device, shard_.kv_of_head.size() * sizeof(int32_t)),
      hidden_(device, kv_.transport(), kv_.streamed_layers() > 0 ? kv_.shape().context : 0, config_.dim, kPrefillRows,
              kv_.streamed_layers() > 0 && options.residency.hidden_on_host),
      committed_(static_cast<size_t>(options.sequences), 0),
      graphs_(options.graphs && device.graphs()) {
    groups_.reserve(kMaxRows);
    if (context() > config_.context) {
        log::warn("context {} is beyond the {} tokens the model was made for: expect worse text there", context(),
                  config_.context);
    }
    const Buffer<Space::kHost> staging(device, kv_of_head_.bytes());
    std::memcpy(staging.data(), shard_.kv_of_head.data(), staging.bytes());
    compute_->copy(kv_of_head(), staging.tensor(DType::kI32, {shard_.n_heads}));
    compute_->synchronize();
}

Llama::~Llama() {
    // What is queued reads and writes the members below the stream.
    compute_->drain();
    if (kv_.transport() != nullptr) kv_.transport()->drain();
}

// qkv = (rope(Wq h), rope(Wk h), Wv h),  h = norm(x);  an owner's keys and values go where they belong.
void Llama::project(Kernels& op, int64_t layer, const LayerKv& kv, const Batch& batch, const Tensor& x) {
    const LayerWeights& w = weights(layer);
    const int64_t rows = batch.rows, kv_cols = shard_.n_kv_heads * config_.head_dim;
    const Tensor h = s_.h.first_rows(rows), q = queries(rows);
    const Tensor qkv = s_.qkv.first_rows(rows).slice_cols(0, w.wqkv.rows());

    op.rmsnorm(h, x, w.attn_norm, static_cast<float>(config_.norm_eps));
    op.matmul(qkv, h, w.wqkv);
    op.rope(q, batch.cos_sin, config_.head_dim);
    if (!config_.owns_kv(layer)) return;
    const Tensor k = qkv.slice_cols(q.cols(), kv_cols), v = qkv.slice_cols(q.cols() + kv_cols, kv_cols);
    op.rope(k, batch.cos_sin, config_.head_dim);
    if (batch.prefill) {
        op.kv_append(kv, k, v, batch.view);
    } else {
        op.kv_stage(kv, k, v);
    }
}

void Llama::attention(Kernels& op, const LayerKv& kv, const Batch& batch) {
    op.attention(s_.att.first_rows(batch.rows), queries(batch.rows), kv, kv_of_head(), batch.view);
}

// x += Wo att.  A rank holds some heads, so Wo gives a partial sum.
void Llama::mix(Kernels& op, int64_t layer, const Tensor& x) {
    const Tensor h = s_.h.first_rows(x.rows());

    op.matmul(h, s_.att.first_rows(x.rows()), weights(layer).wo);
    comm_.all_reduce(*compute_, h);
    op.add(x, h);
}

// x += Wdown (silu(Wgate h) * Wup h),  h = norm(x).  A rank holds some columns, so Wdown gives a partial sum.
void Llama::feed_forward(Kernels& op, int64_t layer, const Tensor& x) {
    const LayerWeights& w = weights(layer);
    const int64_t rows = x.rows();
    const Tensor h = s_.h.first_rows(rows);

    op.rmsnorm(h, x, w.ffn_norm, static_cast<float>(config_.norm_eps));
    op.matmul(s_.gate_up.first_rows(rows), h, w.gate_up);
    op.swiglu(s_.act.first_rows(rows), s_.gate_up.first_rows(rows));
    op.matmul(h, s_.act.first_rows(rows), w.down);
    comm_.all_reduce(*compute_, h);
    op.add(x, h);
}

// logits = lm_head norm(x) of at most kMaxRows rows, on every rank's device. Always by the decode kernels.
void Llama::head(const Tensor& x) {
    const int64_t rows = x.rows();
    const Tensor last = s_.last.first_rows(rows), part = s_.part.first_rows(rows);

    decode_op_->rmsnorm(last, x, weights_.final_norm, static_cast<float>(config_.norm_eps));
    decode_op_->matmul(part.slice_cols(0, shard_.vocab), last, weights_.lm_head);
    if (shard_.ranks > 1) comm_.all_gather(*compute_, gathered(), part);
}

std::span<const int32_t> Llama::sample(const SamplingParams& params, std::span<const double> uniforms) {
    const int64_t rows = logits_rows_;
    check(static_cast<int64_t>(uniforms.size()) == rows, "sample: {} uniforms for {} rows", uniforms.size(), rows);
    auto* fractions = static_cast<int64_t*>(s_.uniforms_host.data());
    std::transform(uniforms.begin(), uniforms.end(), fractions, fraction_of);
    const Tensor ids = s_.ids.first_rows(rows);
    compute_->copy(s_.uniforms.first_rows(rows), s_.uniforms_host.first_rows(rows));
    decode_op_->sample(ids, gathered(), config_.vocab, s_.uniforms.first_rows(rows), rule_of(params));
    compute_->copy(s_.ids_host.first_rows(rows), ids);
    compute_->synchronize();
    return {static_cast<const int32_t*>(s_.ids_host.data()), static_cast<size_t>(rows)};
}

void Llama::save_logits() {
    check(logits_rows_ == 1, "save_logits: {} rows, want 1", logits_rows_);
    compute_->copy(s_.saved, gathered());
}

void Llama::restore_logits() {
    logits_rows_ = 1;
    compute_->copy(gathered(), s_.saved);
}

HostTensor Llama::logits() {
    const Tensor all = gathered();
    compute_->copy(HostTensor(s_.gathered_host.data(), DType::kF32, all.shape()), all);
    compute_->synchronize();
    if (shard_.ranks > 1) {  // [ranks, rows, part] -> [rows, vocab]
        const Matrix<float> out = s_.logits.as<float>();
        const auto* in = static_cast<const float*>(s_.gathered_host.data());
        for (int64_t rank = 0; rank < shard_.ranks; ++rank) {
            const int64_t begin = std::min(rank * shard_.vocab_part, config_.vocab);
            const int64_t n = std::min(shard_.vocab_part, config_.vocab - begin);
            for (int64_t r = 0; r < logits_rows_; ++r) {
                std::copy_n(in + (rank * logits_rows_ + r) * shard_.vocab_part, n, out.row(r) + begin);
            }
        }
    }
    return s_.logits.first_rows(logits_rows_);
}

void Llama::forward(std::span<const Row> rows) {
    for (const Row& row : rows) {
        require(row.position < context(), Exit::kConfig, "position {} is beyond the context of {} tokens: raise -c",
                row.position, context());
    }
    for (size_t s = 0; s < committed_.size(); ++s) committed_[s] = kv_.length(static_cast<int64_t>(s));
    logits_rows_ = static_cast<int64_t>(rows.size());
    groups_.clear();
    for (size_t r = 0; r < rows.size(); ++r) {
        if (r == 0 || rows[r].sequence != rows[r - 1].sequence) {
            groups_.push_back({.sequence = rows[r].sequence, .first = static_cast<int64_t>(r)});
        }
        ++groups_.back().rows;
        groups_.back().bound = std::max<int64_t>(groups_.back().bound, rows[r].position + 1);
    }
    // A graph's grids are for the whole context; what a row sees is told by the batch, in device memory.
    decode(decode_batch_.decode(rows, committed_, graphs_ ? context() : 0));
}

// Attention of streamed layers is enqueued as it is; the stretches between are graphs.
void Llama::decode(const Batch& batch) {
    size_t stretch = 0;
    int64_t after = -1;
    kv_.begin(groups_);
    for (int64_t l = 0; l < config_.n_layers; ++l) {
        if (!streamed(l)) continue;
        replay(stretch++, batch, after, l);
        arriving_attention(l, batch);
        after = l;
    }
    replay(stretch, batch, after, config_.n_layers);
    kv_.end();
    warm_[static_cast<size_t>(batch.rows - 1)] = true;
}

void Llama::arriving_attention(int64_t layer, const Batch& batch) {
    const Tensor att = s_.att.first_rows(batch.rows), q = queries(batch.rows);
    kv_.attend(owner(layer), [&](const RowGroup& g, const LayerKv& kv, const TileRange& tiles) {
        decode_op_->attention(att.slice_rows(g.first, g.rows), q.slice_rows(g.first, g.rows), kv, kv_of_head(),
                              batch.view.some(g.first, g.rows, g.bound), tiles);
    });
}

// What lies between attention of layer `after` and attention of layer `before`: -1 and n_layers are the two ends.
void Llama::stretch(const Batch& batch, int64_t after, int64_t before) {
    Kernels& op = *decode_op_;
    const Tensor x = s_.x.first_rows(batch.rows);
    const auto rest = [&](int64_t layer) {
        mix(op, layer, x);
        feed_forward(op, layer, x);
    };
    const auto kv = [&](int64_t layer) { return kv_.layer(owner(layer)); };
    if (after < 0) {
        op.embed(x, weights_.embedding, batch.ids);
    } else {
        rest(after);
    }
    for (int64_t l = after + 1; l < before; ++l) {
        project(op, l, kv(l), batch, x);
        attention(op, kv(l), batch);
        rest(l);
    }
    if (before < config_.n_layers) {
        project(op, before, kv(before), batch, x);
    } else {
        head(x);
    }
}

void Llama::replay(size_t i, const Batch& batch, int64_t after, int64_t before) {
    const auto rows = static_cast<size_t>(batch.rows - 1);
    const auto enqueue = [&] { stretch(batch, after, before); };
    if (!graphs_ || !warm_[rows]) return enqueue();  // kernels are loaded, messages find their memory, outside graphs
    if (recorded_[rows].size() <= i) recorded_[rows].resize(i + 1);
    std::unique_ptr<Graph>& graph = recorded_[rows][i];
    if (!graph) graph = compute_->capture(enqueue);
    check(graph != nullptr, "stream {}: the device has graphs, its stream has none", compute_->name());
    graph->launch();
}

void Llama::keep(int sequence, std::span<const int32_t> rows) {
    kv_.keep(*decode_op_, sequence, rows);
}

void Llama::truncate(int sequence, int64_t n) {
    kv_.truncate(sequence, n);
}

size_t Llama::kv_bytes(int64_t tokens) const {
    const KvLayout& l = kv_.shape().layout;
    const size_t token = static_cast<size_t>(l.kv_heads * l.head_dim) * (size_of(l.k_type) + size_of(l.v_type));
    return static_cast<size_t>(kv_.shape().owner_layers * tokens) * token;
}

}  // namespace trireme
