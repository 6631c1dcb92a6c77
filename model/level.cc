#include "model/level.h"

#include <algorithm>

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

int64_t graph_rows(int64_t rows) {
    // Above 8 rows, less than a third is padding; 18 is for TriForce's verify of 17 rows.
    for (const int64_t size : {1, 2, 4, 8, 12, 18, 24, 32, 48}) {
        if (rows <= size) return size;
    }
    return kMaxRows;
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
      decode_op_(make_kernels(device, *compute_, Phase::kDecode,
                              kernel_limits(config_, shard_, kMaxRows, weights.in_blocks()))),
      prefill_op_(make_kernels(device, *compute_, Phase::kPrefill,
                               kernel_limits(config_, shard_, kPrefillRows, weights.in_blocks()))),
      rope_(config_.rope, config_.head_dim),
      decode_batch_(device, *compute_, rope_, config_.head_dim, kMaxRows),
      // A layer-by-layer prefill uses every batch of the prompt once for each layer: all of them are kept.
      prefill_batch_(device, *compute_, rope_, config_.head_dim, kPrefillRows,
                     by_layers() ? prefill_batches(cache_->facts().most_prefill) : 1),
      hidden_(device, cache_->transport(), by_layers() ? cache_->facts().most_prefill : 0, config_.dim, kPrefillRows,
              cache_->transport() && options.residency.hidden_on_host),
      block_input_(device, cache_->transport(), map_.upward() ? cache_->facts().most_prefill : 0, config_.dim,
                   kPrefillRows, cache_->transport() && options.residency.hidden_on_host),
      once_(forward_steps(map_, false)),
      repeated_(forward_steps(map_, true)),
      asked_(options.passes),
      graphs_(options.graphs && device.graphs()) {
    check(comm.rank() == shard_.rank && comm.size() == shard_.ranks, "rank {} of {} has the weights of rank {} of {}",
          comm.rank(), comm.size(), shard_.rank, shard_.ranks);
    for (LayerIndex l; l < end(); ++l) {
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
    set_logits_rows(n, graphs_ ? graph_rows(n) : n);
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
    if (!graphs_) {
        bounds = {.slots = 0, .staged = cache_->staged().size()};
        for (const RowGroup& g : groups_) bounds.slots = std::max(bounds.slots, g.bound);
    }
    decode(decode_batch_.decode(rows, padded_rows_, *cache_, first, bounds), passes_over(rows, first));
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

// Attention of streamed layers differs in every forward and is enqueued op by op. The work between such attentions is
// replayed in segments, one graph each. Segments also end at pass boundaries, so one recorded graph serves any number
// of passes.
void Level::decode(const Batch& batch, int64_t passes) {
    using Op = ForwardStep::Op;
    const Steps& steps = passes > 1 ? repeated_ : once_;
    size_t begin = 0, pass_begin = 0;
    int64_t to_repeat = 0;
    if (passes != decode_passes_) cache_->set_read_order(forward_reads(map_, passes));
    decode_passes_ = passes;
    comm_.turn(*compute_);
    cache_->begin(groups_);
    for (size_t i = 0; i < steps.size(); ++i) {
        const auto [step, layer] = steps[i];
        if (step == Op::kKeep) {
            replay(batch, steps, begin, i + 1);
            begin = pass_begin = i + 1;
            to_repeat = passes - 1;
            cache_->set_provisional(true);
        } else if (step == Op::kReturn) {
            replay(batch, steps, begin, i + 1);
            if (--to_repeat > 0) i = pass_begin - 1;
            begin = i + 1;
            cache_->set_provisional(to_repeat > 0);
        } else if (step == Op::kLayer && !cache_->recordable(map_.reads(layer))) {
            replay(batch, steps, begin, i);
            attention(*decode_op_, layer, batch);
            begin = i + 1;
        }
    }
    replay(batch, steps, begin, steps.size());
    cache_->end();
    warm_[index(batch.rows - 1)] = true;
}

// Enqueues steps [begin, end). If the step before `begin` is a layer, the segment starts after its attention. If step
// `end` is a layer, the segment stops before its attention, unless step end - 1 is kKeep or kReturn. Step 0 follows the
// embedding; the head follows the last step.
void Level::run_segment(const Batch& batch, const Steps& steps, size_t begin, size_t end) {
    using Op = ForwardStep::Op;
    Kernels& op = *decode_op_;
    const Tensor x = s_.x.first_rows(batch.rows);
    if (begin == 0) {
        op.embed(x, weights_.embedding, batch.ids);
    } else if (steps[begin - 1].op == Op::kLayer) {
        output_projection(op, steps[begin - 1].layer, x);
        feed_forward(op, steps[begin - 1].layer, x);
    }
    for (size_t i = begin; i < end; ++i) {
        const auto [step, at] = steps[i];
        if (step == Op::kKeep) return compute_->copy(s_.input.first_rows(batch.rows), x, "block_input");
        if (step == Op::kReturn) return compute_->copy(x, s_.input.first_rows(batch.rows), "block_again");
        // Also if only keys and values are needed: they then have the same bits as in the last pass.
        if (step == Op::kKeys) {
            project(op, at, batch, x, /*writes=*/true);
        } else {
            layer(op, at, batch, x, /*writes=*/true);
        }
    }
    if (end < steps.size()) {
        project(op, steps[end].layer, batch, x, /*writes=*/true);
    } else {
        head(x);
    }
}

void Level::replay(const Batch& batch, const Steps& steps, size_t begin, size_t end) {
    const auto enqueue = [&] { run_segment(batch, steps, begin, end); };
    // The first forward of a size runs op by op: it loads kernels and allocates messages, and a capture must not.
    if (!graphs_ || !warm_[index(batch.rows - 1)]) return enqueue();
    std::vector<std::unique_ptr<Graph>>& graphs = recorded_[{batch.rows, &steps == &repeated_}];
    graphs.resize(steps.size() + 1);
    std::unique_ptr<Graph>& graph = graphs[begin];
    if (!graph) graph = compute_->capture(enqueue);
    check(graph != nullptr, "stream {}: the device has graphs, its stream has none", compute_->name());
    graph->launch();
}

void Level::keep(int sequence, std::span<const int32_t> rows) {
    cache_->keep(*decode_op_, sequence, rows);
}

void Level::truncate(int sequence, int64_t n) {
    cache_->truncate(sequence, n);
}

size_t Level::kv_bytes(int64_t tokens) const {
    const KvLayout& l = cache_->shape().layout;
    const size_t token = static_cast<size_t>(l.kv_heads * l.head_dim) * (size_of(l.k_type) + size_of(l.v_type));
    return static_cast<size_t>(cache_->shape().owner_layers * cache_->kept(tokens)) * token;
}

size_t Level::read_bytes(int64_t tokens) const {
    return kv_bytes(tokens) / static_cast<size_t>(map_.owners()) * static_cast<size_t>(map_.layers());
}

}  // namespace trireme
