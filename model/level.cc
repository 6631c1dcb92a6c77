#include "model/level.h"

#include <algorithm>

#include "model/footprint.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

std::unique_ptr<KvView> make_view(Device& device, Stream& compute, const KvShape& shape, const LevelOptions& options,
                                  const std::vector<OwnerIndex>& reads) {
    const ViewMaker maker = options.view ? options.view : full_view(options.residency);
    return maker(device, compute, shape, reads);
}

/// The layer map of a model that Level can compute: one pass over the layers, full attention. Errors: Exit::kData.
const LayerMap& downward(const LlamaConfig& config) {
    const LayerMap& map = config.layer_map;
    const std::optional<LayerIndex> up = map.first_upward();
    require(!up, Exit::kData,
            "{}: layer {} reads the keys and values of layer {}, which comes after it; want one before", config.name,
            up.value_or(LayerIndex()), map.source(up.value_or(LayerIndex())));
    for (LayerIndex l; l.i < map.layers(); ++l) {
        require(!map.windowed(l), Exit::kData, "{}: layer {} sees a sliding window; only full attention is supported",
                config.name, l);
    }
    return map;
}

}  // namespace

Level::Level(Device& device, Comm& comm, const Weights& weights, const LevelOptions& options)
    : weights_(weights),
      config_(weights.config()),
      shard_(weights.shard()),
      comm_(comm),
      compute_(device.make_stream(options.name)),
      map_(downward(config_)),
      view_(make_view(device, *compute_, kv_shape(config_, shard_, options), options, map_.reads())),
      s_(device, config_, shard_),
      decode_op_(make_kernels(device, *compute_, Phase::kDecode, kernel_limits(config_, shard_, kMaxRows))),
      prefill_op_(make_kernels(device, *compute_, Phase::kPrefill, kernel_limits(config_, shard_, kPrefillRows))),
      rope_(config_.rope, config_.head_dim),
      decode_batch_(device, *compute_, rope_, config_.head_dim, kMaxRows),
      // A layer-by-layer prefill uses every batch of the prompt once for each layer: all of them are kept.
      prefill_batch_(device, *compute_, rope_, config_.head_dim, kPrefillRows,
                     view_->by_layers() ? prefill_batches(view_->most_prefill()) : 1),
      hidden_(device, view_->transport(), view_->by_layers() ? view_->most_prefill() : 0, config_.dim, kPrefillRows,
              view_->transport() && options.residency.hidden_on_host),
      graphs_(options.graphs && device.graphs()) {
    check(comm.rank() == shard_.rank && comm.size() == shard_.ranks, "rank {} of {} has the weights of rank {} of {}",
          comm.rank(), comm.size(), shard_.rank, shard_.ranks);
    groups_.reserve(kMaxRows);
    if (view_->positions() > config_.context) {
        log::warn("{} positions, the model was made for {}: expect worse text beyond", view_->positions(),
                  config_.context);
    }
}

Level::~Level() {
    comm_.leave(*compute_);
    // Queued work still uses members that are destroyed before the stream.
    compute_->drain();
    if (view_->transport() != nullptr) view_->transport()->drain();
}

void Level::forward(std::span<const Row> rows) {
    view_->drop();
    extend(rows);
}

void Level::extend(std::span<const Row> rows) {
    const int32_t first = view_->staged().size();
    logits_rows_ = static_cast<int64_t>(rows.size());
    groups_.clear();
    for (size_t r = 0; r < rows.size(); ++r) {
        const Row& row = rows[r];
        require(row.position < context(), Exit::kConfig, "position {} is beyond the context of {} tokens", row.position,
                context());
        const int32_t staged = view_->stage(row.sequence, row.parent);
        if (r == 0 || row.sequence != rows[r - 1].sequence) {
            groups_.push_back({.sequence = row.sequence, .first = static_cast<int64_t>(r)});
        }
        RowGroup& group = groups_.back();
        ++group.rows;
        group.bound = std::max(group.bound, view_->cached(row.sequence) + view_->staged().depth(staged) + 1);
    }
    // A recorded graph's launches are sized for the whole context; kernels read what a row attends to from the batch,
    // in device memory.
    BatchMaker::Bounds bounds = {.slots = view_->most_slots(), .staged = kMaxRows};
    if (!graphs_) {
        bounds = {.slots = 0, .staged = view_->staged().size()};
        for (const RowGroup& g : groups_) bounds.slots = std::max(bounds.slots, g.bound);
    }
    decode(decode_batch_.decode(rows, *view_, first, bounds));
}

// Attention of streamed layers is different work in every forward and is enqueued op by op; each stretch of work
// between such attentions is replayed as a graph.
void Level::decode(const Batch& batch) {
    size_t stretch = 0;
    LayerIndex after(-1);
    comm_.turn(*compute_);
    view_->begin(groups_);
    for (LayerIndex l; l < end(); ++l) {
        if (view_->recordable(map_.reads(l))) continue;
        replay(stretch++, batch, after, l);
        attention(*decode_op_, l, batch);
        after = l;
    }
    replay(stretch, batch, after, end());
    view_->end();
    warm_[static_cast<size_t>(batch.rows - 1)] = true;
}

// Enqueues everything between the attention of layer `after` and that of layer `before`. after = -1: from the start of
// the forward; before = n_layers: to its end.
void Level::stretch(const Batch& batch, LayerIndex after, LayerIndex before) {
    Kernels& op = *decode_op_;
    const Tensor x = s_.x.first_rows(batch.rows);
    const auto rest = [&](LayerIndex layer) {
        mix(op, layer, x);
        feed_forward(op, layer, x);
    };
    if (after.i < 0) {
        op.embed(x, weights_.embedding, batch.ids);
    } else {
        rest(after);
    }
    for (LayerIndex l(after.i + 1); l < before; ++l) {
        project(op, l, batch, x, /*writes=*/true);
        attention(op, l, batch);
        rest(l);
    }
    if (before < end()) {
        project(op, before, batch, x, /*writes=*/true);
    } else {
        head(x);
    }
}

void Level::replay(size_t i, const Batch& batch, LayerIndex after, LayerIndex before) {
    const auto rows = static_cast<size_t>(batch.rows - 1);
    const auto enqueue = [&] { stretch(batch, after, before); };
    // The first forward of a size runs op by op: it loads kernels and allocates messages, which a capture must not.
    if (!graphs_ || !warm_[rows]) return enqueue();
    if (recorded_[rows].size() <= i) recorded_[rows].resize(i + 1);
    std::unique_ptr<Graph>& graph = recorded_[rows][i];
    if (!graph) graph = compute_->capture(enqueue);
    check(graph != nullptr, "stream {}: the device has graphs, its stream has none", compute_->name());
    graph->launch();
}

void Level::keep(int sequence, std::span<const int32_t> rows) {
    view_->keep(*decode_op_, sequence, rows);
}

void Level::truncate(int sequence, int64_t n) {
    view_->truncate(sequence, n);
}

size_t Level::kv_bytes(int64_t tokens) const {
    const KvLayout& l = view_->shape().layout;
    const size_t token = static_cast<size_t>(l.kv_heads * l.head_dim) * (size_of(l.k_type) + size_of(l.v_type));
    return static_cast<size_t>(view_->shape().owner_layers * view_->kept(tokens)) * token;
}

}  // namespace trireme
