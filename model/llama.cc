#include "model/llama.h"

#include <algorithm>
#include <cstring>

#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

bool owns_kv(const LlamaConfig& c, int64_t layer) {
    return c.kv_source[static_cast<size_t>(layer)] == layer;
}

/// Owners are numbered in layer order; every layer reads the KV of one of them.
std::vector<int64_t> owners_of_layers(const LlamaConfig& c) {
    std::vector<int64_t> number(c.kv_source.size()), owner;
    int64_t owners = 0;
    for (int64_t l = 0; l < c.n_layers; ++l) number[static_cast<size_t>(l)] = owns_kv(c, l) ? owners++ : -1;
    for (const int64_t source : c.kv_source) owner.push_back(number[static_cast<size_t>(source)]);
    return owner;
}

KvShape kv_shape(const LlamaConfig& c, const Shard& shard, const LlamaOptions& o) {
    int64_t owners = 0;
    for (int64_t l = 0; l < c.n_layers; ++l) owners += owns_kv(c, l);
    return {.layout = {shard.n_kv_heads, c.head_dim, o.k_type, o.v_type},
            .owner_layers = owners,
            .sequences = o.sequences,
            .context = o.context == 0 ? c.context : o.context};
}

KernelLimits limits(const LlamaConfig& c, const Shard& shard, int64_t rows) {
    return {.max_rows = rows,
            .max_k = std::max({c.dim, shard.n_heads * c.head_dim, shard.ffn_dim}),
            .max_n = std::max(
                {(shard.n_heads + 2 * shard.n_kv_heads) * c.head_dim, c.dim, 2 * shard.ffn_dim, shard.vocab_part}),
            .heads = shard.n_heads,
            .head_dim = c.head_dim,
            .vocab = rows <= kMaxRows ? c.vocab : 0};
}

}  // namespace

Llama::Llama(Device& device, Comm& comm, const WeightSource& source, const LlamaOptions& options,
             const Progress& progress)
    : config_(source.config()),
      shard_(make_shard(config_.n_heads, config_.n_kv_heads, config_.ffn_dim, config_.vocab, comm.rank(), comm.size())),
      comm_(comm),
      compute_(device.make_stream("compute")),
      weights_(device, *compute_, source, shard_, options.weights, progress),
      kv_(device, *compute_, kv_shape(config_, shard_, options)),
      s_(device, config_, shard_),
      decode_op_(make_kernels(device, *compute_, Phase::kDecode, limits(config_, shard_, kMaxRows))),
      prefill_op_(make_kernels(device, *compute_, Phase::kPrefill, limits(config_, shard_, kPrefillRows))),
      rope_(config_.rope, config_.head_dim),
      decode_batch_(device, *compute_, rope_, config_.head_dim, kMaxRows),
      prefill_batch_(device, *compute_, rope_, config_.head_dim, kPrefillRows),
      kv_of_head_(device, shard_.kv_of_head.size() * sizeof(int32_t)),
      owner_of_layer_(owners_of_layers(config_)),
      committed_(static_cast<size_t>(options.sequences), 0),
      graphs_(options.graphs && device.graphs()) {
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
    compute_->drain();  // what is queued reads and writes the members below the stream
}

// The whole stack over the rows of a batch; leaves the residual stream in s_.x. Enqueues only: nothing waits.
void Llama::layers(Kernels& op, const Batch& batch) {
    op.embed(s_.x.first_rows(batch.rows), weights_.embedding, batch.ids);
    for (int64_t l = 0; l < config_.n_layers; ++l) {
        attention(op, l, batch);
        feed_forward(op, l, batch);
    }
}

// x += Wo attend(rope(Wq h), rope(Wk h), Wv h),  h = norm(x).  A rank holds some heads, so Wo gives a partial sum.
void Llama::attention(Kernels& op, int64_t layer, const Batch& batch) {
    const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
    const LayerKv& kv = kv_.layer(owner_of_layer_[static_cast<size_t>(layer)]);
    const int64_t rows = batch.rows, q_cols = shard_.n_heads * config_.head_dim,
                  kv_cols = shard_.n_kv_heads * config_.head_dim;
    const Tensor x = s_.x.first_rows(rows), h = s_.h.first_rows(rows), att = s_.att.first_rows(rows);
    const Tensor qkv = s_.qkv.first_rows(rows).slice_cols(0, w.wqkv.rows()), q = qkv.slice_cols(0, q_cols);

    op.rmsnorm(h, x, w.attn_norm, static_cast<float>(config_.norm_eps));
    op.matmul(qkv, h, w.wqkv);
    op.rope(q, batch.cos_sin, config_.head_dim);
    if (owns_kv(config_, layer)) {
        const Tensor k = qkv.slice_cols(q_cols, kv_cols), v = qkv.slice_cols(q_cols + kv_cols, kv_cols);
        op.rope(k, batch.cos_sin, config_.head_dim);
        if (batch.prefill) {
            op.kv_append(kv, k, v, batch.view);
        } else {
            op.kv_stage(kv, k, v);
        }
    }
    op.attention(att, q, kv, kv_of_head(), batch.view);
    op.matmul(h, att, w.wo);
    comm_.all_reduce(*compute_, h);
    op.add(x, h);
}

// x += Wdown (silu(Wgate h) * Wup h),  h = norm(x).  A rank holds some columns, so Wdown gives a partial sum.
void Llama::feed_forward(Kernels& op, int64_t layer, const Batch& batch) {
    const LayerWeights& w = weights_.layers[static_cast<size_t>(layer)];
    const int64_t rows = batch.rows;
    const Tensor x = s_.x.first_rows(rows), h = s_.h.first_rows(rows);

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
    // A graph's grids are for the whole context; what a row sees is told by the batch, in device memory.
    decode(decode_batch_.decode(rows, committed_, graphs_ ? context() : 0));
}

void Llama::decode(const Batch& batch) {
    const auto i = static_cast<size_t>(batch.rows - 1);
    const auto enqueue = [&] {
        layers(*decode_op_, batch);
        head(s_.x.first_rows(batch.rows));
    };
    if (!graphs_ || !warm_[i]) {  // kernels are loaded, and messages find their memory, outside any graph
        enqueue();
        warm_[i] = true;
        return;
    }
    if (!recorded_[i]) recorded_[i] = compute_->capture(enqueue);
    check(recorded_[i] != nullptr, "stream {}: the device has graphs, its stream has none", compute_->name());
    recorded_[i]->launch();
}

void Llama::keep(int sequence, std::span<const int32_t> rows) {
    kv_.keep(*decode_op_, sequence, rows);
}

void Llama::truncate(int sequence, int64_t n) {
    kv_.truncate(sequence, n);
}

void Llama::prefill(int sequence, std::span<const int32_t> tokens, const Progress& progress, const EachLogits& each) {
    const int64_t n = static_cast<int64_t>(tokens.size()), first = length(sequence);
    require(n >= 1 && first + n <= context(), Exit::kConfig,
            "{} tokens behind {} do not fit the context of {}: shorten the prompt or raise -c", n, first, context());
    Event before;  // the chunk before this one: progress is reported as chunks finish
    for (int64_t done = 0; done < n; done += kPrefillRows) {
        const int64_t rows = std::min(kPrefillRows, n - done);
        const Batch batch = prefill_batch_.prefill(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(rows)),
                                                   sequence, first + done, first + n);
        layers(*prefill_op_, batch);
        kv_.append(sequence, rows);
        for (int64_t r = 0; each && r < rows; r += kMaxRows) {
            logits_rows_ = std::min(kMaxRows, rows - r);
            head(s_.x.slice_rows(r, logits_rows_));
            each(first + done + r, logits());
        }
        if (done + rows == n && !each) {
            logits_rows_ = 1;
            head(s_.x.slice_rows(rows - 1, 1));
        }
        if (before.stream != nullptr) compute_->synchronize(before);
        if (progress && done > 0) progress(done, n);
        before = compute_->record();
    }
    compute_->synchronize();
    if (progress) progress(n, n);
}

size_t Llama::kv_bytes(int64_t tokens) const {
    const KvLayout& l = kv_.shape().layout;
    const size_t token = static_cast<size_t>(l.kv_heads * l.head_dim) * (size_of(l.k_type) + size_of(l.v_type));
    return static_cast<size_t>(kv_.shape().owner_layers * tokens) * token;
}

}  // namespace trireme
