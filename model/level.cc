#include "model/level.h"

#include <algorithm>

#include "model/footprint.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

Residency residency_of(const LevelOptions& options, const std::vector<int64_t>& owner_of_layer) {
    Residency r = options.residency;
    r.reads = owner_of_layer;
    return r;
}

}  // namespace

Level::Level(Device& device, Comm& comm, const Weights& weights, const LevelOptions& options)
    : weights_(weights),
      config_(weights.config()),
      shard_(weights.shard()),
      comm_(comm),
      compute_(device.make_stream("compute")),
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
      hidden_(device, kv_.transport(), kv_.streamed_layers() > 0 ? kv_.shape().context : 0, config_.dim, kPrefillRows,
              kv_.streamed_layers() > 0 && options.residency.hidden_on_host),
      committed_(static_cast<size_t>(options.sequences), 0),
      graphs_(options.graphs && device.graphs()) {
    check(comm.rank() == shard_.rank && comm.size() == shard_.ranks, "rank {} of {} has the weights of rank {} of {}",
          comm.rank(), comm.size(), shard_.rank, shard_.ranks);
    groups_.reserve(kMaxRows);
    if (context() > config_.context) {
        log::warn("context {} is beyond the {} tokens the model was made for: expect worse text there", context(),
                  config_.context);
    }
}

Level::~Level() {
    comm_.leave(*compute_);
    // What is queued reads and writes the members below the stream.
    compute_->drain();
    if (kv_.transport() != nullptr) kv_.transport()->drain();
}

void Level::forward(std::span<const Row> rows) {
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
void Level::decode(const Batch& batch) {
    size_t stretch = 0;
    int64_t after = -1;
    comm_.turn(*compute_);
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

void Level::arriving_attention(int64_t layer, const Batch& batch) {
    const Tensor att = s_.att.first_rows(batch.rows), q = queries(batch.rows);
    kv_.attend(owner(layer), [&](const RowGroup& g, const LayerKv& kv, const TileRange& tiles) {
        decode_op_->attention(att.slice_rows(g.first, g.rows), q.slice_rows(g.first, g.rows), kv, weights_.kv_of_head,
                              batch.view.some(g.first, g.rows, g.bound), tiles);
    });
}

// What lies between attention of layer `after` and attention of layer `before`: -1 and n_layers are the two ends.
void Level::stretch(const Batch& batch, int64_t after, int64_t before) {
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

void Level::replay(size_t i, const Batch& batch, int64_t after, int64_t before) {
    const auto rows = static_cast<size_t>(batch.rows - 1);
    const auto enqueue = [&] { stretch(batch, after, before); };
    if (!graphs_ || !warm_[rows]) return enqueue();  // kernels are loaded, messages find their memory, outside graphs
    if (recorded_[rows].size() <= i) recorded_[rows].resize(i + 1);
    std::unique_ptr<Graph>& graph = recorded_[rows][i];
    if (!graph) graph = compute_->capture(enqueue);
    check(graph != nullptr, "stream {}: the device has graphs, its stream has none", compute_->name());
    graph->launch();
}

void Level::keep(int sequence, std::span<const int32_t> rows) {
    kv_.keep(*decode_op_, sequence, rows);
}

void Level::truncate(int sequence, int64_t n) {
    kv_.truncate(sequence, n);
}

size_t Level::kv_bytes(int64_t tokens) const {
    const KvLayout& l = kv_.shape().layout;
    const size_t token = static_cast<size_t>(l.kv_heads * l.head_dim) * (size_of(l.k_type) + size_of(l.v_type));
    return static_cast<size_t>(kv_.shape().owner_layers * tokens) * token;
}

}  // namespace trireme
