#include "offload/evicting/evicting_memory.h"

#include <algorithm>

namespace trireme {

int64_t EvictingMemory::slots(const KvShape& kv, const EvictionShape& s) {
    return tiles_for(s.most_of_head(kv.owner_layers)) * kTileTokens;
}

int64_t EvictingMemory::entries(const KvShape& kv, const EvictionShape& s) {
    // A call's tokens follow the retained ones, which belong to the same sequence.
    const int64_t most = s.most_of_head(kv.owner_layers);
    if (const int64_t behind = s.chunk > 0 ? s.chunk : s.turns ? s.prompt : 0; behind > 0) {
        return std::min(kv.context, most + behind);
    }
    return std::max(s.prompt > 0 ? std::min(s.prompt, kv.context) : kv.context, most);
}

WantedTensors EvictingScratch::scratch_wants(const KvShape& k, const EvictionShape& s, const KvReaders& readers) {
    const KvLayout& l = k.layout;
    const int64_t heads = readers.heads(), places = readers.places(), o = k.owner_layers, h = l.kv_heads;
    const int64_t of_head = EvictingMemory::slots(k, s), n = EvictingMemory::entries(k, s), width = heads * l.head_dim;
    WantedTensors all = {
        {&entry_tiles, DType::kU8, {places * tiles_for(n), static_cast<int64_t>(l.tile_bytes())}},
        {&entry_table, DType::kI64, {places, tiles_for(n)}},
        {&begins, DType::kI32, {places * h}},
        {&order, DType::kI32, {places * h, of_head}},
        {&zeros, DType::kF32, {std::max(o * h, heads * n)}},
        {&entry_scores, DType::kF32, {h, n}},
        {&keys, DType::kI64, {h, 2 * n}},
    };
    if (s.rolling) all.push_back({&angles, DType::kF32, {n + kMaxRows, l.head_dim}});
    if (s.attentive()) {
        all.insert(all.end(), {{&shares, DType::kF32, {heads}},
                               {&row_totals, DType::kF32, {kPrefillRows, heads, 2}},
                               {&sums, DType::kF32, {heads, n}},
                               {&entry_weights, DType::kF32, {places * h, n}}});
    }
    if (s.rule().counts_all()) {
        const int64_t columns = of_head + kMaxRows;
        all.insert(all.end(), {{&weights, DType::kF32, {1, heads, columns}},
                               {&tops, DType::kF32, {1, heads, tiles_for(columns)}},
                               {&totals, DType::kF32, {1, heads, 2}}});
    }
    if (s.observing()) {
        all.insert(all.end(), {{&turns, DType::kF32, {s.observe, l.head_dim}},
                               {&turned, DType::kF32, {s.observe, width}},
                               {&unused, DType::kF32, {s.observe, width}},
                               {&slots_of_rows, DType::kI32, {n}},
                               {&sequences, DType::kI32, {n}}});
        if (readers.any_strict()) all.push_back({&before_rows, DType::kI32, {n}});
    }
    if (s.shares()) {
        all.insert(all.end(), {{&all_keys, DType::kI64, {s.key_rows, n}},
                               {&rows, DType::kI32, {s.all_heads}},
                               {&largest, DType::kI32, {o}}});
    }
    return all;
}

size_t EvictingScratch::scratch_bytes(const KvShape& kv, const EvictionShape& s, const KvReaders& readers) {
    return bytes_of(EvictingScratch().scratch_wants(kv, s, readers));
}

void EvictingScratch::take_scratch(Arena<Space::kDevice>& device, const KvShape& kv, const EvictionShape& s,
                                   const KvReaders& readers) {
    take_all(device, scratch_wants(kv, s, readers));
}

WantedTensors EvictingMemory::wants(const KvShape& k, const EvictionShape& s) {
    const KvLayout& l = k.layout;
    const int64_t tiles_a_head = tiles_for(s.most_of_head(k.owner_layers)), of_head = tiles_a_head * kTileTokens;
    const int64_t o = k.owner_layers, h = l.kv_heads;
    WantedTensors all = {
        {&tiles,
         DType::kU8,
         {o * (s.shares() ? s.shared_tiles(h) : h * tiles_a_head), static_cast<int64_t>(l.tile_bytes()) / h}},
        {&kv.tiles, DType::kI64, {o, h, tiles_a_head}},
        {&kv.staged_k, stored_type(l.k_type), l.staged_shape(l.k_type, o)},
        {&kv.staged_v, stored_type(l.v_type), l.staged_shape(l.v_type, o)},
        {&kv.tokens, DType::kI32, {o, h, of_head}},
        {&kv.ranks, DType::kI32, {o, h, of_head}},
        {&kv.scores, DType::kF32, {o, h, of_head}},
        {&kv.counts, DType::kI32, {o, h}},
        {&kv.budgets, DType::kI32, {o, h}},
    };
    if (s.rule().counts_all()) all.push_back({&pooled, DType::kF32, {o, h, of_head + 1}});
    if (s.shares()) {
        all.insert(all.end(),
                   {{&equal_budgets, DType::kI32, {o, h}}, {&equal_tiles, DType::kI64, {o, h, tiles_a_head}}});
    }
    if (s.returns) want_copies(all, saved, kept());
    return all;
}

size_t EvictingMemory::bytes(const KvShape& kv, const EvictionShape& s) {
    return bytes_of(EvictingMemory().wants(kv, s));
}

void EvictingMemory::take(Arena<Space::kDevice>& device, const KvShape& shape, const EvictionShape& s) {
    take_all(device, wants(shape, s));
    kv.layout = shape.layout;
}

LayerKv EvictingMemory::entries(int64_t place) const {
    const int64_t heads = kv.layout.kv_heads;
    return {.layout = kv.layout,
            .tiles = entry_table.slice_rows(place, 1),
            .staged_k = {},
            .staged_v = {},
            .begins = begins.slice_rows(place * heads, heads),
            .angles = angles};
}

Tensor EvictingMemory::weights_of(int64_t place, int64_t entries) const {
    const int64_t heads = kv.layout.kv_heads;
    return {entry_weights.slice_rows(place * heads, heads).data(), DType::kF32, {heads, entries}};
}

}  // namespace trireme
