#include "model/passes.h"

namespace trireme {

ForwardSteps forward_steps(const LayerMap& map, int64_t passes) {
    using Does = ForwardStep::Does;
    ForwardSteps all;
    const auto layers = [&](LayerIndex first, LayerIndex end) {
        for (LayerIndex l = first; l < end; ++l) {
            all.steps.push_back({Does::kLayer, l});
            all.reads.push_back(map.reads(l));
        }
    };
    for (const LayerBlock& block : map.blocks()) {
        const LayerIndex last(block.end.i - 1);
        if (block.iterated && passes > 1) {
            all.steps.push_back({Does::kKeep});
            for (int64_t pass = 1; pass < passes; ++pass) {
                layers(block.first, last);
                all.steps.push_back({Does::kKeys, last});
                all.steps.push_back({Does::kReturn});
            }
        }
        layers(block.first, block.end);
    }
    return all;
}

}  // namespace trireme
