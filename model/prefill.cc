// Unless the outputs of all rows are needed, only the last row goes beyond the highest owner's keys and values
// (reference lckv 6.6).

#include "model/prefill.h"

#include <algorithm>

#include "model/footprint.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {

Prefill::Prefill(Device& device, const Weights& weights, Comm& comm, Stream& stream, KvCache& cache, Scratch& scratch,
                 Rope& rope, Layers& layers, Logits& logits, const Passes& passes, bool hidden_on_host)
    : weights_(weights),
      config_(weights.config()),
      map_(config_.layer_map),
      comm_(comm),
      stream_(stream),
      cache_(cache),
      s_(scratch),
      layers_(layers),
      logits_(logits),
      op_(make_kernels(device, stream, Phase::kPrefill,
                       kernel_limits(config_, weights.shard(), kPrefillRows, weights.in_blocks()))),
      // A layer-by-layer prefill uses every batch of the prompt once for each layer: all of them are kept.
      batch_(device, stream, rope, config_.head_dim, kPrefillRows,
             by_layers() ? prefill_batches(cache.facts().most_prefill) : 1),
      hidden_(device, cache.transport(), by_layers() ? cache.facts().most_prefill : 0, config_.dim, kPrefillRows,
              cache.transport() && hidden_on_host),
      block_input_(device, cache.transport(), map_.upward() ? cache.facts().most_prefill : 0, config_.dim, kPrefillRows,
                   cache.transport() && hidden_on_host),
      asked_(passes) {}

void Prefill::run(int sequence, std::span<const int32_t> tokens, const Progress& progress, const EachLogits& each) {
    const int64_t n = static_cast<int64_t>(tokens.size()), first = cache_.length(sequence);
    require(n >= 1 && first + n <= cache_.shape().context, Exit::kConfig,
            "{} tokens after {} do not fit the context of {}: shorten the prompt, or raise the context", n, first,
            cache_.shape().context);
    comm_.turn(stream_);
    for (int64_t done = 0; done < n; done += cache_.facts().most_prefill) {
        const int64_t some = std::min(n - done, cache_.facts().most_prefill);
        part(sequence, tokens.subspan(index(done), index(some)),
             progress ? Progress([&](int64_t of_part, int64_t) { progress(done + of_part, n); }) : progress, each);
    }
    if (progress) progress(n, n);
}

void Prefill::part(int sequence, std::span<const int32_t> tokens, const Progress& progress, const EachLogits& each) {
    last_row_from_ = each || cache_.wants_all_rows() ? end() : map_.highest_owner();
    cache_.begin_prefill(sequence, static_cast<int64_t>(tokens.size()));
    if (by_layers()) {
        run_by_layers(sequence, tokens, progress, each);
    } else {
        run_by_batches(sequence, tokens, progress, each);
    }
    cache_.end();
    stream_.synchronize();
}

// Returns rows [done, done + rows) of a prefill, rotated for the positions that the cache gives.
Batch Prefill::prompt_batch(int sequence, std::span<const int32_t> tokens, int64_t done, int64_t rows) {
    const int64_t first = cache_.length(sequence), n = static_cast<int64_t>(tokens.size());
    const KvCache::Place at = cache_.rope_position(sequence, first + done, first + n);
    return batch_.prefill(tokens.subspan(index(done), index(rows)), sequence, at.position,
                          cache_.cached(sequence) + done, at.text);
}

// Computes the remaining layers for a prompt's last row; x [1, dim] is the input of the highest owner. The keys and
// values of all rows that it sees are stored.
void Prefill::finish_last_row(const Batch& last, const Tensor& x) {
    Residual residual(x);
    for (LayerIndex l = last_row_from_; l < end(); ++l) {
        cache_.begin_layer(map_.reads(l), KvCache::Pass::kReads);
        layers_.layer(*op_, l, last, residual, /*writes=*/false);
    }
    residual.settle(*op_);
}

// Computes the logits of a batch's rows if all are requested, else of the prompt's last row.
void Prefill::head(const Tensor& x, int64_t position, bool last, const EachLogits& each) {
    for (int64_t r = 0; each && r < x.rows(); r += kMaxRows) {
        const int64_t n = std::min(kMaxRows, x.rows() - r);
        logits_.set_rows(n, n);
        Residual some(x.slice_rows(r, n));
        logits_.compute(some);
        each(position + r, logits_.host());
    }
    if (last && !each) {
        logits_.set_rows(1, 1);
        Residual one(x.slice_rows(x.rows() - 1, 1));
        logits_.compute(one);
    }
}

void Prefill::run_by_batches(int sequence, std::span<const int32_t> tokens, const Progress& progress,
                             const EachLogits& each) {
    const int64_t n = static_cast<int64_t>(tokens.size()), first = cache_.length(sequence);
    Event before;  // end of the previous batch: progress is reported as batches finish
    for (int64_t done = 0; done < n; done += kPrefillRows) {
        const int64_t rows = std::min(kPrefillRows, n - done);
        const Batch batch = prompt_batch(sequence, tokens, done, rows);
        const Tensor x = s_.x.first_rows(rows);
        op_->embed(x, weights_.embedding, batch.ids);
        const bool last = done + rows == n;
        Residual residual(x);
        for (LayerIndex l; l < last_row_from_; ++l) layers_.layer(*op_, l, batch, residual, /*writes=*/true);
        residual.settle(*op_);
        if (last_row_from_ < end()) layers_.project_keys(*op_, last_row_from_, batch, x);
        if (last) finish_last_row(batch.last(), x.slice_rows(rows - 1, 1));
        head(x, first + done, last, each);
        if (before.stream != nullptr) stream_.synchronize(before);
        if (progress && done > 0) progress(done, n);
        before = stream_.record();
    }
}

// A pass that only computes and stores an owner's keys and values; attention and the rest of the layer follow in
// another pass.
void Prefill::write_layer(LayerIndex layer, std::span<const Batch> batches) {
    cache_.begin_layer(map_.number(layer), KvCache::Pass::kWrites);
    for (size_t b = 0; b < batches.size(); ++b) {
        const auto block = static_cast<int64_t>(b);
        layers_.project_keys(*op_, layer, batches[b], hidden_.open(block, RowStore::Use::kRead));
        hidden_.close(block);
    }
}

// Computes a layer for the whole prompt: for layer last_row_from_ only keys and values, for later layers nothing. The
// prefill window holds one streamed layer at a time, so an owner that reads another layer writes in an earlier pass.
void Prefill::run_layer(LayerIndex at, std::span<const Batch> batches) {
    if (at > last_row_from_) return;
    if (at == last_row_from_) return write_layer(at, batches);
    const bool reads_its_own = map_.source(at) == at;
    if (map_.owns(at) && !reads_its_own) write_layer(at, batches);
    cache_.begin_layer(map_.reads(at), reads_its_own ? KvCache::Pass::kWrites : KvCache::Pass::kReads);
    for (size_t b = 0; b < batches.size(); ++b) {
        const auto block = static_cast<int64_t>(b);
        Residual residual(hidden_.open(block, RowStore::Use::kChange));
        layers_.layer(*op_, at, batches[b], residual, reads_its_own);
        residual.settle(*op_);
        hidden_.close(block);
    }
}

// Keeps the residual streams of the whole prompt, and computes each layer for the whole prompt before the next. So a
// streamed layer's tiles are computed, read and stored once. The batches are those of run_by_batches(), hence the
// same bits.
void Prefill::run_by_layers(int sequence, std::span<const int32_t> tokens, const Progress& progress,
                            const EachLogits& each) {
    const int64_t n = static_cast<int64_t>(tokens.size()), first = cache_.length(sequence);
    std::vector<Batch> batches;
    hidden_.begin(n);
    if (map_.upward()) block_input_.begin(n);
    passes_ = 1;
    for (int64_t done = 0; done < n; done += kPrefillRows) {
        const int64_t rows = std::min(kPrefillRows, n - done), block = done / kPrefillRows;
        batches.push_back(prompt_batch(sequence, tokens, done, rows));
        op_->embed(hidden_.open(block, RowStore::Use::kWrite), weights_.embedding, batches.back().ids);
        hidden_.close(block);
    }
    const auto blocks = static_cast<int64_t>(batches.size());
    Event before;
    for (const LayerBlock& block : map_.blocks()) {
        if (block.iterated) {
            iterate(block, batches);
            if (progress) progress(block.end.i * n / end().i, n);
            continue;
        }
        for (LayerIndex l = block.first; l < block.end; ++l) {
            run_layer(l, batches);
            if (before.stream != nullptr) stream_.synchronize(before);
            if (progress && l.i > 0) progress(l.i * n / end().i, n);
            before = stream_.record();
        }
    }
    if (last_row_from_ < end()) {
        const Tensor x = s_.x.first_rows(1), rows = hidden_.open(blocks - 1, RowStore::Use::kRead);
        stream_.copy(x, rows.slice_rows(rows.rows() - 1, 1), "last_row");
        hidden_.close(blocks - 1);
        finish_last_row(batches.back().last(), x);
        return head(x, first + n - 1, /*last=*/true, each);
    }
    for (int64_t b = each ? 0 : blocks - 1; b < blocks; ++b) {
        head(hidden_.open(b, RowStore::Use::kRead), first + b * kPrefillRows, b + 1 == blocks, each);
        hidden_.close(b);
    }
}

}  // namespace trireme
