#include "model/passes.h"

namespace trireme {

std::vector<ForwardStep> forward_steps(const LayerMap& map, bool repeats) {
    using Does = ForwardStep::Does;
    std::vector<ForwardStep> all;
    const auto layers = [&](LayerIndex first, LayerIndex end) {
        for (LayerIndex l = first; l < end; ++l) all.push_back({Does::kLayer, l});
    };
    for (const LayerBlock& block : map.blocks()) {
        if (block.iterated && repeats) {
            const LayerIndex last(block.end.i - 1);
            all.push_back({Does::kKeep});
            layers(block.first, last);
            all.push_back({Does::kKeys, last});
            all.push_back({Does::kReturn});
        }
        layers(block.first, block.end);
    }
    return all;
}

std::vector<OwnerIndex> forward_reads(const LayerMap& map, int64_t passes) {
    std::vector<OwnerIndex> all;
    for (const LayerBlock& block : map.blocks()) {
        for (int64_t pass = block.iterated ? 1 : passes; pass <= passes; ++pass) {
            const int64_t left_out = pass < passes ? 1 : 0;
            for (LayerIndex l = block.first; l.i < block.end.i - left_out; ++l) all.push_back(map.reads(l));
        }
    }
    return all;
}

}  // namespace trireme
