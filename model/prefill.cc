// A prompt through the layers: chunk by chunk where all KV is on chip, else layer by layer.

#include <algorithm>

#include "model/level.h"
#include "runtime/error.h"

namespace trireme {

void Level::prefill(int sequence, std::span<const int32_t> tokens, const Progress& progress, const EachLogits& each) {
    const int64_t n = static_cast<int64_t>(tokens.size()), first = length(sequence);
    require(n >= 1 && first + n <= context(), Exit::kConfig,
            "{} tokens behind {} do not fit the context of {}: shorten the prompt or raise -c", n, first, context());
    comm_.turn(*compute_);
    kv_.begin_prefill(sequence, n);
    if (kv_.streamed_layers() == 0) {
        prefill_by_chunks(sequence, tokens, progress, each);
    } else {
        prefill_by_layers(sequence, tokens, progress, each);
    }
    kv_.end_prefill();
    compute_->synchronize();
    if (progress) progress(n, n);
}

void Level::prefill_layer(int64_t layer, const LayerKv& kv, const Batch& batch, const Tensor& x) {
    Kernels& op = *prefill_op_;
    project(op, layer, kv, batch, x);
    attention(op, kv, batch);
    mix(op, layer, x);
    feed_forward(op, layer, x);
}

// Logits of a chunk's rows where all are wanted, else of the prompt's last row.
void Level::prefill_head(const Tensor& x, int64_t position, bool last, const EachLogits& each) {
    for (int64_t r = 0; each && r < x.rows(); r += kMaxRows) {
        logits_rows_ = std::min(kMaxRows, x.rows() - r);
        head(x.slice_rows(r, logits_rows_));
        each(position + r, logits());
    }
    if (last && !each) {
        logits_rows_ = 1;
        head(x.slice_rows(x.rows() - 1, 1));
    }
}

void Level::prefill_by_chunks(int sequence, std::span<const int32_t> tokens, const Progress& progress,
                              const EachLogits& each) {
    const int64_t n = static_cast<int64_t>(tokens.size()), first = length(sequence);
    Event before;  // the chunk before this one: progress is reported as chunks finish
    for (int64_t done = 0; done < n; done += kPrefillRows) {
        const int64_t rows = std::min(kPrefillRows, n - done);
        const Batch batch = prefill_batch_.prefill(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(rows)),
                                                   sequence, first + done, first + n);
        const Tensor x = s_.x.first_rows(rows);
        prefill_op_->embed(x, weights_.embedding, batch.ids);
        for (int64_t l = 0; l < config_.n_layers; ++l) prefill_layer(l, kv_.layer(owner(l)), batch, x);
        prefill_head(x, first + done, done + rows == n, each);
        if (before.stream != nullptr) compute_->synchronize(before);
        if (progress && done > 0) progress(done, n);
        before = compute_->record();
    }
}

// The residual streams of the whole prompt are kept while it goes through a layer: a streamed layer's tiles are
// produced, used and stored once (DESIGN section 3). The same chunks and so the same bits as above.
void Level::prefill_by_layers(int sequence, std::span<const int32_t> tokens, const Progress& progress,
                              const EachLogits& each) {
    const int64_t n = static_cast<int64_t>(tokens.size()), first = length(sequence);
    std::vector<Batch> batches;
    hidden_.begin(n);
    for (int64_t done = 0; done < n; done += kPrefillRows) {
        const int64_t rows = std::min(kPrefillRows, n - done);
        batches.push_back(prefill_batch_.prefill(tokens.subspan(static_cast<size_t>(done), static_cast<size_t>(rows)),
                                                 sequence, first + done, first + n));
        const int64_t chunk = done / kPrefillRows;
        prefill_op_->embed(hidden_.open(chunk, RowStore::Use::kWrite), weights_.embedding, batches.back().ids);
        hidden_.close(chunk);
    }
    const auto chunks = static_cast<int64_t>(batches.size());
    Event before;
    for (int64_t l = 0; l < config_.n_layers; ++l) {
        const bool writes = config_.owns_kv(l);  // an owner comes before those that read it
        const LayerKv kv = kv_.open_layer(owner(l), /*been_through=*/!writes);
        for (int64_t c = 0; c < chunks; ++c) {
            const Batch& batch = batches[static_cast<size_t>(c)];
            const int64_t position = first + c * kPrefillRows;
            const Tensor x = hidden_.open(c, RowStore::Use::kChange);
            if (writes) kv_.open_rows(owner(l), position, batch.rows);
            prefill_layer(l, kv, batch, x);
            hidden_.close(c);
            if (writes) kv_.rows_written(owner(l), position, batch.rows);
        }
        kv_.close_layer(owner(l));
        if (before.stream != nullptr) compute_->synchronize(before);
        if (progress && l > 0) progress(l * n / config_.n_layers, n);
        before = compute_->record();
    }
    for (int64_t c = 0; c < chunks; ++c) {
        if (!each && c + 1 < chunks) continue;
        prefill_head(hidden_.open(c, RowStore::Use::kRead), first + c * kPrefillRows, c + 1 == chunks, each);
        hidden_.close(c);
    }
}

}  // namespace trireme
