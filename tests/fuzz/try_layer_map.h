#pragma once
/// Properties of every layer map that is accepted.

#include "model/passes.h"
#include "tests/fuzz/fuzz.h"

namespace trireme::fuzz {

/// Every layer is in one block, in order. A layer reads no layer of a later block. A block is iterated if one of its
/// layers reads a later one, so that layers which run once depend on no later block.
inline void expect_sound_blocks(const LayerMap& map) {
    LayerIndex next;
    for (const LayerBlock& block : map.blocks()) {
        expect(block.first == next && next < block.end, "blocks that are not all layers, in order");
        next = block.end;
        bool upward = false;
        for (LayerIndex l = block.first; l < block.end; ++l) {
            expect(map.source(l) < block.end, "a layer that reads a later block");
            expect(!map.upward(l) || block.iterated, "a layer that reads a later one and runs once");
            upward = upward || map.upward(l);
        }
        expect(upward == block.iterated, "a block that is iterated for nothing");
        const LayerIndex last(block.end.i - 1);
        expect(!block.iterated || (map.owns(last) && map.read_from_below(last)), "a block that ends past its owner");
    }
    expect(next.i == map.layers(), "blocks that are not all layers");
}

/// Owners are numbered in order, every layer reads an owner, and a forward has the expected number of reads.
inline void expect_sound_owners(const LayerMap& map) {
    int64_t owners = 0;
    LayerIndex highest;
    for (LayerIndex l; l.i < map.layers(); ++l) {
        expect(map.owns(map.source(l)), "a layer that reads no owner");
        if (!map.owns(l)) continue;
        highest = l;
        expect(map.number(l).i == owners++, "owners that are not numbered in order");
    }
    expect(owners == map.owners() && owners > 0, "another number of owners");
    expect(map.highest_owner() == highest, "another highest owner");
    for (const int64_t passes : {1, 3}) {
        int64_t reads = 0;
        for (const LayerBlock& b : map.blocks()) {
            const int64_t layers = b.end.i - b.first.i;
            reads += b.iterated ? passes * layers - (passes - 1) : layers;
        }
        expect(static_cast<int64_t>(forward_reads(map, passes).size()) == reads, "a forward that reads otherwise");
    }
}

inline void expect_sound(const LayerMap& map) {
    expect(LayerMap::parse(map.text(), map.layers(), "its text") == map, "a map that is not what it says of itself");
    expect_sound_blocks(map);
    expect_sound_owners(map);
}

}  // namespace trireme::fuzz
