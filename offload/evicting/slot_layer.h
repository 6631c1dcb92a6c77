#pragma once
/// slot_layer(): the slots of an owner (kernels/slots.h) as attention takes them. It may also be `owners` consecutive
/// owners from `first` on, whose heads then appear as those of one layer.

#include "kernels/slots.h"
#include "offload/index.h"

namespace trireme {

inline LayerKv slot_layer(const SlotKv& kv, OwnerIndex first, int64_t owners = 1) {
    const auto from = [&](const Tensor& t, const Shape& part) {
        return Tensor(static_cast<char*>(t.data()) + first.at() * t.bytes() / static_cast<size_t>(kv.owners()),
                      t.dtype(), part);
    };
    KvLayout l = kv.layout;
    l.kv_heads *= owners;
    return {.layout = l,
            .tiles = from(kv.tiles, {l.kv_heads, kv.tiles.dim(2)}),
            .staged_k = from(kv.staged_k, l.staged_shape(l.k_type)),
            .staged_v = from(kv.staged_v, l.staged_shape(l.v_type)),
            .counts = from(kv.counts, {l.kv_heads}),
            .ranks = from(kv.ranks, {l.kv_heads, kv.slots()})};
}

}  // namespace trireme
