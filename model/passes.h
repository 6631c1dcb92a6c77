#pragma once
/// How often a forward passes over layers that read the keys and values of later ones (reference lckv 1.4, 2.3). After
/// r passes the first r rows of a chain are exact: every row sees only rows before it there.

#include <cstdint>
#include <vector>

#include "model/layer_map.h"

namespace trireme {

/// Of a prompt. Never more passes than it has tokens: then it is exact.
struct Passes {
    enum class How : uint8_t {
        kConfig,  // as many as the checkpoint was trained with
        kFixed,   // n
        kExact,   // until keys and values do not change any more
        kAuto,    // until none of their elements changes by more than `tolerance`
    };
    How how = How::kConfig;
    int64_t n = 0;
    double tolerance = 1e-3;
};

/// A decode forward's work on its rows' residual streams, in order.
struct ForwardStep {
    enum class Does : uint8_t {
        kLayer,   // the layer
        kKeys,    // only its keys and values: another pass follows
        kKeep,    // a copy of what comes into a block; here each pass begins that another one follows
        kReturn,  // back to that copy: such a pass ends
    };
    Does does;
    LayerIndex layer = {};
};

/// The layers of a map. With `repeats`, an iterated block is a pass that ends with keys and values, from kKeep to
/// kReturn, which is to be repeated for all passes but the last, and the last pass; without, one pass.
std::vector<ForwardStep> forward_steps(const LayerMap& map, bool repeats);
/// The owner that each attention reads of a forward of so many passes, in order.
std::vector<OwnerIndex> forward_reads(const LayerMap& map, int64_t passes);

/// [owners] Where the keys and values of a prompt can lie that goes layer by layer, however often it passes over
/// iterated layers: places 0, 1, .., as few as owners live at once. An owner lives from the layer that writes it to the
/// last one that reads it. What one pass over a block leaves for the next lives from the block's first layer on, and
/// what is read in every pass lives until the block's last layer.
std::vector<int64_t> prompt_places(const LayerMap& map);

}  // namespace trireme
