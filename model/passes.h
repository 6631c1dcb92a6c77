#pragma once
/// Passes of a forward over layers that read the keys and values of later ones (reference lckv 1.4, 2.3). After r
/// passes the first r rows of a chain are exact, because in these layers every row sees only rows before it.

#include <cstdint>
#include <vector>

#include "model/checkpoint/layer_map.h"

namespace trireme {

/// The number of passes of a prompt; at most its number of tokens, with which it is exact.
struct Passes {
    enum class How : uint8_t {
        kConfig,  // the number that the checkpoint was trained with
        kFixed,   // n
        kExact,   // until keys and values no longer change
        kAuto,    // until none of their elements changes by more than `tolerance`
    };
    How how = How::kConfig;
    int64_t n = 0;
    double tolerance = 1e-3;
};

/// A step of a decode forward's work on its rows' residual streams.
struct ForwardStep {
    enum class Op : uint8_t {
        kLayer,   // the layer
        kKeys,    // only its keys and values, as another pass follows
        kKeep,    // copies the input of a block; every pass but the last begins here
        kReturn,  // restores that copy; every pass but the last ends here
    };
    Op op;
    LayerIndex layer = {};
};

/// Returns the steps over a map's layers. Without `repeats`, an iterated block is one pass. With it, another pass
/// precedes that one, from kKeep to kReturn. It ends with keys and values, and is repeated for all passes but the last.
std::vector<ForwardStep> forward_steps(const LayerMap& map, bool repeats);
/// Returns the owner that each attention of a forward of `passes` passes reads, in order.
std::vector<OwnerIndex> forward_reads(const LayerMap& map, int64_t passes);

/// Returns [owners] buffer indices 0, 1, .. for keys and values in a layer-by-layer prefill, with any number of passes.
/// Owners that live at the same time have different indices. An owner lives from the layer that writes it to the last
/// one that reads it. If one pass over a block leaves it for the next, it lives from the block's first layer on. If
/// every pass reads it, it lives until the block's last layer.
std::vector<int64_t> prompt_places(const LayerMap& map);

}  // namespace trireme
