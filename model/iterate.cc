// Passes of a prompt over layers that read the keys and values of later ones (reference lckv 2.3).

#include <algorithm>

#include "model/prefill.h"

namespace trireme {

// Every pass begins with the block's input. It reads a later layer's keys and values from the previous pass, and an
// earlier layer's from this pass (Gauss-Seidel). Only the last pass needs all of the block's last layer.
void Prefill::iterate(const LayerBlock& block, std::span<const Batch> batches) {
    const auto blocks = static_cast<int64_t>(batches.size());
    int64_t tokens = 0;
    for (const Batch& b : batches) tokens += b.rows;
    const bool compares = asked_.how == Passes::How::kExact || asked_.how == Passes::How::kAuto;
    const int64_t asked = asked_.how == Passes::How::kFixed ? asked_.n : compares ? tokens : config_.passes;
    const int64_t most = std::min(tokens, asked);
    const double tolerance = asked_.how == Passes::How::kAuto ? asked_.tolerance : 0;
    const LayerIndex last(block.end.i - 1);

    cache_.set_provisional(true);
    for (LayerIndex l = block.first; l < block.end; ++l) {
        if (map_.read_from_below(l)) clear_layer(l, batches);
    }
    if (most > 1) copy_rows(block_input_, hidden_, blocks);
    int64_t pass = 1;
    for (bool settled = false; pass < most && !settled; ++pass) {
        layers_.compare_changes(compares);
        if (compares) stream_.copy(s_.change, Tensor(s_.zeros.data(), DType::kF32, s_.change.shape()));
        for (LayerIndex l = block.first; l < last; ++l) run_layer(l, batches);
        write_layer(last, batches);
        copy_rows(hidden_, block_input_, blocks);
        settled = compares && static_cast<double>(largest_change()) <= tolerance;
        layers_.compare_changes(false);
    }
    cache_.set_provisional(false);
    for (LayerIndex l = block.first; l < block.end; ++l) run_layer(l, batches);
    passes_ = std::max(passes_, pass);
}

// Writes zeros as keys and values, with which the passes begin.
void Prefill::clear_layer(LayerIndex layer, std::span<const Batch> batches) {
    const OwnerIndex owner = map_.number(layer);
    cache_.begin_layer(owner, KvCache::Pass::kWrites);
    for (const Batch& b : batches) {
        const Tensor none = s_.zeros.first_rows(b.rows);
        cache_.write(*op_, owner, none, none, b.cache);
    }
}

void Prefill::copy_rows(RowStore& to, RowStore& from, int64_t blocks) {
    for (int64_t b = 0; b < blocks; ++b) {
        const Tensor rows = from.open(b, RowStore::Use::kRead);
        stream_.copy(to.open(b, RowStore::Use::kWrite), rows, "block_rows");
        to.close(b);
        from.close(b);
    }
}

// Returns the largest change of the pass's keys and values, over all ranks.
float Prefill::largest_change() {
    stream_.copy(s_.change_host, s_.change);
    stream_.synchronize();
    const auto* of_rows = static_cast<const float*>(s_.change_host.data());
    const std::vector<float> of_ranks =
        comm_.gather_values(*std::max_element(of_rows, of_rows + s_.change_host.shape().elements()));
    return *std::ranges::max_element(of_ranks);
}

}  // namespace trireme
