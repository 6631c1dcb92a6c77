#include "model/decode_steps.h"

#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {

int64_t graph_rows(int64_t rows) {
    // Above 8 rows, less than a third is padding; 18 is for TriForce's verify of 17 rows.
    for (const int64_t size : {1, 2, 4, 8, 12, 18, 24, 32, 48}) {
        if (rows <= size) return size;
    }
    return kMaxRows;
}

DecodeSteps::DecodeSteps(const Weights& weights, Stream& stream, Kernels& op, KvCache& cache, Scratch& scratch,
                         Layers& layers, Logits& logits, bool graphs)
    : weights_(weights),
      map_(weights.config().layer_map),
      stream_(stream),
      op_(op),
      cache_(cache),
      s_(scratch),
      layers_(layers),
      logits_(logits),
      once_(forward_steps(map_, false)),
      repeated_(forward_steps(map_, true)),
      graphs_(graphs) {}

// Attention of streamed layers differs in every forward and is enqueued op by op. The work between such attentions is
// replayed in segments, one graph each. Segments also end at pass boundaries, so one recorded graph serves any number
// of passes.
void DecodeSteps::enqueue(const Batch& batch, std::span<const RowGroup> groups, int64_t passes) {
    using Op = ForwardStep::Op;
    const Steps& steps = passes > 1 ? repeated_ : once_;
    size_t begin = 0, pass_begin = 0;
    int64_t to_repeat = 0;
    cache_.begin(groups, passes == passes_ ? std::vector<OwnerIndex>{} : forward_reads(map_, passes));
    passes_ = passes;
    for (size_t i = 0; i < steps.size(); ++i) {
        const auto [step, layer] = steps[i];
        if (step == Op::kKeep) {
            replay(batch, steps, begin, i + 1);
            begin = pass_begin = i + 1;
            to_repeat = passes - 1;
            cache_.set_provisional(true);
        } else if (step == Op::kReturn) {
            replay(batch, steps, begin, i + 1);
            if (--to_repeat > 0) i = pass_begin - 1;
            begin = i + 1;
            cache_.set_provisional(to_repeat > 0);
        } else if (step == Op::kLayer && !cache_.recordable(map_.reads(layer))) {
            replay(batch, steps, begin, i);
            layers_.attention(op_, layer, batch);
            begin = i + 1;
        }
    }
    replay(batch, steps, begin, steps.size());
    cache_.end();
    warm_[index(batch.rows - 1)] = true;
}

// Enqueues steps [begin, end). If the step before `begin` is a layer, the segment starts after its attention. If step
// `end` is a layer, the segment stops before its attention, unless step end - 1 is kKeep or kReturn. Step 0 follows the
// embedding; the head follows the last step.
void DecodeSteps::run_segment(const Batch& batch, const Steps& steps, size_t begin, size_t end) {
    using Op = ForwardStep::Op;
    Residual x(s_.x.first_rows(batch.rows));
    if (begin == 0) {
        op_.embed(x.settle(op_), weights_.embedding, batch.ids);
    } else if (steps[begin - 1].op == Op::kLayer) {
        layers_.output_projection(op_, steps[begin - 1].layer, x);
        layers_.feed_forward(op_, steps[begin - 1].layer, x);
    }
    for (size_t i = begin; i < end; ++i) {
        const auto [step, at] = steps[i];
        if (step == Op::kKeep) return stream_.copy(s_.input.first_rows(batch.rows), x.settle(op_), "block_input");
        if (step == Op::kReturn) return stream_.copy(x.settle(op_), s_.input.first_rows(batch.rows), "block_again");
        // Also if only keys and values are needed: they then have the same bits as in the last pass.
        if (step == Op::kKeys) {
            layers_.project(op_, at, batch, x, /*writes=*/true);
        } else {
            layers_.layer(op_, at, batch, x, /*writes=*/true);
        }
    }
    if (end < steps.size()) {
        layers_.project(op_, steps[end].layer, batch, x, /*writes=*/true);
    } else {
        logits_.compute(x);
    }
}

void DecodeSteps::replay(const Batch& batch, const Steps& steps, size_t begin, size_t end) {
    const auto enqueue = [&] { run_segment(batch, steps, begin, end); };
    // The first forward of a size runs op by op: it loads kernels and allocates messages, and a capture must not.
    if (!graphs_ || !warm_[index(batch.rows - 1)]) return enqueue();
    std::vector<std::unique_ptr<Graph>>& graphs = recorded_[{batch.rows, &steps == &repeated_}];
    graphs.resize(steps.size() + 1);
    std::unique_ptr<Graph>& graph = graphs[begin];
    if (!graph) graph = stream_.capture(enqueue);
    check(graph != nullptr, "stream {}: the device has graphs, its stream has none", stream_.name());
    graph->launch();
}

}  // namespace trireme
