#include "model/passes.h"

#include <algorithm>

namespace trireme {
namespace {

/// The layers during which an owner's keys and values are needed, both included.
struct Life {
    LayerIndex first, last;
};

Life life_of(const LayerMap& map, LayerIndex owner) {
    Life life{owner, owner};
    for (LayerIndex l; l.i < map.layers(); ++l) {
        if (map.source(l) == owner) life.last = std::max(life.last, l);
    }
    for (const LayerBlock& block : map.blocks()) {
        if (!block.iterated || owner >= block.end) continue;
        bool read = false;
        for (LayerIndex l = block.first; l < block.end; ++l) read = read || map.source(l) == owner;
        if (owner >= block.first ? !map.read_from_below(owner) : !read) continue;  // no pass needs an earlier one's
        life.first = std::min(life.first, block.first);
        life.last = std::max(life.last, LayerIndex(block.end.i - 1));
    }
    return life;
}

}  // namespace

std::vector<ForwardStep> forward_steps(const LayerMap& map, bool repeats) {
    using Op = ForwardStep::Op;
    std::vector<ForwardStep> all;
    const auto layers = [&](LayerIndex first, LayerIndex end) {
        for (LayerIndex l = first; l < end; ++l) all.push_back({Op::kLayer, l});
    };
    for (const LayerBlock& block : map.blocks()) {
        if (block.iterated && repeats) {
            const LayerIndex last(block.end.i - 1);
            all.push_back({Op::kKeep});
            layers(block.first, last);
            all.push_back({Op::kKeys, last});
            all.push_back({Op::kReturn});
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

// Each owner, in the order of first layers, gets the lowest free index. For intervals this needs the fewest indices.
std::vector<int64_t> prompt_places(const LayerMap& map) {
    std::vector<std::pair<Life, OwnerIndex>> lives;
    for (LayerIndex l; l.i < map.layers(); ++l) {
        if (map.owns(l)) lives.emplace_back(life_of(map, l), map.number(l));
    }
    std::ranges::stable_sort(lives, {}, [](const auto& life) { return life.first.first; });
    std::vector<int64_t> places(lives.size());
    std::vector<LayerIndex> used_until;
    for (const auto& [life, owner] : lives) {
        const auto free =
            std::ranges::find_if(used_until, [first = life.first](LayerIndex last) { return last < first; });
        places[owner.at()] = free - used_until.begin();
        if (free == used_until.end()) {
            used_until.push_back(life.last);
        } else {
            *free = life.last;
        }
    }
    return places;
}

}  // namespace trireme
