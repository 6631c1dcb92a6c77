#pragma once
/// DecodeSteps: enqueues the steps of a decode forward, op by op or as recorded graphs.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/layers.h"
#include "model/logits.h"
#include "model/passes.h"
#include "runtime/graph.h"

namespace trireme {

/// Returns the rows, padding included, of the graph for a decode forward of `rows` rows, at most kMaxRows: the next
/// larger of a few sizes. Padding rows (kernels/kv.h) change no bit of the others. Few sizes need less memory than a
/// graph for each row count, and fewer forwards run op by op before they are recorded.
int64_t graph_rows(int64_t rows);

class DecodeSteps {
  public:
    /// `graphs`: forwards are recorded once for each number of rows, and replayed. `op`: decode kernels. References
    /// must outlive the object.
    DecodeSteps(const Weights& weights, Stream& stream, Kernels& op, KvCache& cache, Scratch& scratch, Layers& layers,
                Logits& logits, bool graphs);

    /// Enqueues a forward of these rows, from the embedding to the logits, with this number of passes over iterated
    /// layers. The cache has staged the rows, which are `groups` by sequence.
    void enqueue(const Batch& batch, std::span<const RowGroup> groups, int64_t passes);
    bool graphs() const { return graphs_; }

  private:
    using Steps = std::vector<ForwardStep>;
    void run_segment(const Batch& batch, const Steps& steps, size_t begin, size_t end);
    void replay(const Batch& batch, const Steps& steps, size_t begin, size_t end);

    const Weights& weights_;
    const LayerMap& map_;
    Stream& stream_;
    Kernels& op_;
    KvCache& cache_;
    Scratch& s_;
    Layers& layers_;
    Logits& logits_;
    Steps once_, repeated_;              // of one pass; of several
    int64_t passes_ = 1;                 // of the last forward
    bool graphs_;                        // decode forwards as graphs
    std::array<bool, kMaxRows> warm_{};  // [rows, with padding, - 1] such a forward has run op by op
    // Graphs by rows and whether passes are repeated, then by the step at which the segment begins.
    std::map<std::pair<int64_t, bool>, std::vector<std::unique_ptr<Graph>>> recorded_;
};

}  // namespace trireme
