// Compares prompt_places() with a simulation of what a prompt does with keys and values: every map of up to five
// layers, and published maps.

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "model/passes.h"

namespace trireme::test {
namespace {

/// An access of layer `at` to an owner's keys and values, over the whole prompt.
struct Event {
    LayerIndex at, owner;
    bool reads = false, writes = false;  // both: row by row
    bool compares = false;               // a pass that writes compares with what was there before
    bool last = false;                   // in the last pass
};

/// The accesses of a prompt in order, with `passes` passes over iterated layers (model/prefill.cc, iterate.cc).
std::vector<Event> play(const LayerMap& map, int64_t passes) {
    std::vector<Event> all;
    const auto write = [&](LayerIndex l, bool last) {
        all.push_back({.at = l, .owner = l, .writes = true, .compares = !last && map.read_from_below(l), .last = last});
    };
    const auto layer = [&](LayerIndex l, bool last) {
        const bool own = map.source(l) == l;
        if (map.owns(l) && !own) write(l, last);
        all.push_back({.at = l,
                       .owner = map.source(l),
                       .reads = true,
                       .writes = own,
                       .compares = own && !last && map.read_from_below(l),
                       .last = last});
    };
    for (const LayerBlock& block : map.blocks()) {
        for (LayerIndex l = block.first; l < block.end && block.iterated; ++l) {
            if (map.read_from_below(l)) all.push_back({.at = block.first, .owner = l, .writes = true});  // zeros
        }
        for (int64_t pass = 1; pass < passes && block.iterated; ++pass) {
            for (LayerIndex l = block.first; l.i + 1 < block.end.i; ++l) layer(l, false);
            write(LayerIndex(block.end.i - 1), false);
        }
        for (LayerIndex l = block.first; l < block.end; ++l) layer(l, true);
    }
    return all;
}

/// [events] True while an owner's keys and values must be stored: until they are rewritten, if they are read or
/// compared before that; and from their final write to their last use.
std::vector<bool> needed(const std::vector<Event>& all, LayerIndex owner) {
    std::vector<bool> there(all.size());
    bool used_later = false;
    for (size_t i = all.size(); i-- > 0;) {
        const Event& e = all[i];
        there[i] = used_later || e.owner == owner;
        if (e.owner != owner) continue;
        used_later = e.writes ? e.compares : true;
        if (e.at != owner && e.writes) used_later = false;
    }
    size_t written = 0, over = 0;
    for (size_t i = 0; i < all.size(); ++i) {
        if (all[i].owner != owner || !all[i].last) continue;
        if (all[i].writes) written = i;
        over = i;
    }
    for (size_t i = written; i <= over; ++i) there[i] = true;
    return there;
}

/// Checks a map, and returns the number of places that it needs.
int64_t check(const LayerMap& map) {
    const std::vector<int64_t> places = prompt_places(map);
    EXPECT_EQ(static_cast<int64_t>(places.size()), map.owners());
    std::vector<std::pair<int64_t, int64_t>> lives(places.size(), {map.layers(), -1});  // layers that need an owner
    for (const int64_t passes : {1, 2, 3}) {
        const std::vector<Event> all = play(map, passes);
        std::vector<std::set<int64_t>> used(all.size());
        for (LayerIndex owner; owner.i < map.layers(); ++owner) {
            if (!map.owns(owner)) continue;
            const size_t number = map.number(owner).at();
            const std::vector<bool> there = needed(all, owner);
            for (size_t i = 0; i < all.size(); ++i) {
                if (!there[i]) continue;
                EXPECT_TRUE(used[i].insert(places[number]).second)
                    << map.text() << ", " << passes << " passes: owner " << owner.i << " at event " << i;
                auto& [first, last] = lives[number];
                first = std::min(first, all[i].at.i);
                last = std::max(last, all[i].at.i);
            }
        }
    }
    int64_t most = 0;
    for (int64_t l = 0; l < map.layers(); ++l) {
        most = std::max(
            most, std::ranges::count_if(lives, [&](const auto& life) { return life.first <= l && l <= life.second; }));
    }
    const int64_t asked = *std::ranges::max_element(places) + 1;
    EXPECT_EQ(asked, most) << map.text();
    return asked;
}

TEST(PromptPlaces, AreAsFewAsOwnersLiveAtOnce) {
    for (int64_t layers = 1; layers <= 5; ++layers) {
        std::vector<LayerIndex> sources(static_cast<size_t>(layers));
        for (int64_t number = 0;; ++number) {
            int64_t rest = number;
            for (LayerIndex& source : sources) {
                source = LayerIndex(rest % layers);
                rest /= layers;
            }
            if (rest > 0) break;
            check(LayerMap(sources, "test"));
            if (HasFailure()) return;
        }
    }
}

TEST(PromptPlaces, OfKnownMaps) {
    const auto places = [](const char* text) {
        return check(LayerMap::parse(text, std::ranges::count(std::string(text), '_') + 1, "test"));
    };
    EXPECT_EQ(check(LayerMap::identity(32)), 1);
    EXPECT_EQ(places("0_10_10_10_10_10_10_10_10_10_10_11"), 1);  // LCKV: one owner at a time
    EXPECT_EQ(places("0_0_2_2_4_4"), 1);                         // CLA
    EXPECT_EQ(places("0_1_2_3_4_4_4_4"), 1);                     // YOCO
    EXPECT_EQ(places("1_1_1_4_4_4"), 1);                         // lasagna
    EXPECT_EQ(places("0_1_1_3_3_0_1_3"), 3);                     // every owner is read at the end
    EXPECT_EQ(places("3_0_5_3_4_5"), 3);
    EXPECT_EQ(places("1_2_0"), 3);
}

}  // namespace
}  // namespace trireme::test
