#include "model/level.h"

#include <algorithm>
#include <array>

#include "model/footprint.h"
#include "offload/upload.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/log.h"

namespace trireme {
std::unique_ptr<KvCache> Level::make_cache(Device& device, const LevelOptions& options) {
    const KvShape shape = kv_shape(config_, shard_, options);
    if (options.cache) return options.cache(device, *compute_, shape, map_.reads());
    auto full = std::make_unique<FullCache>(device, *compute_, shape, options.residency, map_.reads());
    full_ = full.get();
    return full;
}

Level::Level(Device& device, Comm& comm, const Weights& weights, const LevelOptions& options)
    : weights_(weights),
      config_(weights.config()),
      shard_(weights.shard()),
      comm_(comm),
      compute_(device.make_stream(options.name)),
      map_(config_.layer_map),
      cache_(make_cache(device, options)),
      s_(device, config_, shard_),
      op_(make_kernels(device, *compute_, Phase::kDecode,
                       kernel_limits(config_, shard_, kMaxRows, weights.in_blocks()))),
      rope_(config_.rope, config_.head_dim),
      batch_(device, *compute_, rope_, config_.head_dim, kMaxRows),
      layers_(weights, comm, *compute_, *cache_, s_),
      logits_(weights, comm, *compute_, *op_, s_),
      steps_(weights, *compute_, *op_, *cache_, s_, layers_, logits_, options.graphs && device.graphs()),
      prefill_(device, weights, comm, *compute_, *cache_, s_, rope_, layers_, logits_, options.passes,
               options.residency.hidden_on_host) {
    check(comm.rank() == shard_.rank && comm.size() == shard_.ranks, "rank {} of {} has the weights of rank {} of {}",
          comm.rank(), comm.size(), shard_.rank, shard_.ranks);
    for (LayerIndex l; l.i < config_.n_layers; ++l) {
        // A cache of no more tokens than the window (a draft's) shows all that it has.
        require(!map_.windowed(l) || cache_->facts().in_order || cache_->kept(context()) <= config_.sliding_window,
                Exit::kData,
                "level {}: layer {} has a sliding window of {} tokens that a cache of selected tokens cannot apply",
                options.name, l, config_.sliding_window);
    }
    groups_.reserve(kMaxRows);
    if (map_.upward()) Upload(device, *compute_).operator()<float>(s_.zeros, [](int64_t, int64_t) { return 0.0F; });
    if (cache_->facts().positions > config_.context) {
        log::warn("{} positions, the model was made for {}: expect worse text beyond", cache_->facts().positions,
                  config_.context);
    }
}

Level::~Level() {
    comm_.leave(*compute_);
    // Queued work still uses members that are destroyed before the stream.
    compute_->drain();
    if (cache_->transport() != nullptr) cache_->transport()->drain();
}

void Level::forward(std::span<const Row> rows) {
    cache_->drop();
    extend(rows);
}

void Level::extend(std::span<const Row> rows) {
    const int32_t first = cache_->staged().size();
    const auto n = static_cast<int64_t>(rows.size());
    const int64_t padded = steps_.graphs() ? graph_rows(n) : n;
    logits_.set_rows(n, padded);
    groups_.clear();
    for (size_t r = 0; r < rows.size(); ++r) {
        const Row& row = rows[r];
        require(row.position < context(), Exit::kConfig, "position {} is beyond the context of {} tokens", row.position,
                context());
        const int32_t staged = cache_->stage(row.sequence, row.parent);
        if (r == 0 || row.sequence != rows[r - 1].sequence) {
            groups_.push_back({.sequence = row.sequence, .first = static_cast<int64_t>(r)});
        }
        RowGroup& group = groups_.back();
        ++group.rows;
        group.bound = std::max(group.bound, cache_->cached(row.sequence) + cache_->staged().depth(staged) + 1);
    }
    // A recorded graph's launches are sized for the whole context. Kernels read the slots and ancestors of a row from
    // the batch, in device memory.
    BatchMaker::Bounds bounds = {.slots = cache_->facts().most_slots, .staged = kMaxRows};
    if (!steps_.graphs()) {
        bounds = {.slots = 0, .staged = cache_->staged().size()};
        for (const RowGroup& g : groups_) bounds.slots = std::max(bounds.slots, g.bound);
    }
    const Batch batch = batch_.decode(rows, padded, *cache_, first, bounds);
    comm_.turn(*compute_);
    steps_.enqueue(batch, groups_, passes_over(rows, first));
}

// Returns the length of the longest chain of these rows, which are staged from number `first` on. Rows that were staged
// before are exact.
int64_t Level::passes_over(std::span<const Row> rows, int32_t first) const {
    std::array<int64_t, kMaxRows> chain;
    int64_t longest = 1;
    for (size_t r = 0; r < rows.size() && map_.upward(); ++r) {
        const int32_t parent = rows[r].parent - first;
        chain[r] = parent < 0 ? 1 : chain[index(parent)] + 1;
        longest = std::max(longest, chain[r]);
    }
    return longest;
}

void Level::keep(int sequence, std::span<const int32_t> rows) {
    cache_->keep(*op_, sequence, rows);
}

void Level::truncate(int sequence, int64_t n) {
    cache_->truncate(sequence, n);
}

void Level::state(Archive& ar, bool tiles) {
    ar.section("level");
    if (tiles || full_ == nullptr) cache_->state(ar);
    logits_.state(ar);
    prefill_.state(ar);
}

size_t step_bytes(const Level& level, int64_t tokens) {
    const LayerMap& map = level.weights().config().layer_map;
    const size_t kv =
        level.cache().bytes_of(tokens) / static_cast<size_t>(map.owners()) * static_cast<size_t>(map.layers());
    return level.weights().bytes_per_step() + kv;
}

}  // namespace trireme
