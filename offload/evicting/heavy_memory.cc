#include "offload/evicting/heavy_memory.h"

#include <algorithm>

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;

// The most query heads of one attention over several owners' slots. More of them save launches and cost scratch.
constexpr int64_t kHeadsTogether = 512;

}  // namespace

int64_t HeavyMemory::owners_together(const KvShape& kv, int64_t heads) {
    return std::clamp(kHeadsTogether / heads, int64_t{1}, kv.owner_layers);
}

int64_t HeavyMemory::counted(const EvictionShape& s, const KvReaders& readers) {
    return s.heads == HeadsBy::kFirst ? readers.owners() : readers.layers();
}

WantedTensors HeavyMemory::wants(const KvShape& k, const EvictionShape& s, const KvReaders& readers) {
    const KvLayout& l = k.layout;
    const int64_t heads = readers.heads();
    const int64_t o = k.owner_layers, h = l.kv_heads, n = k.context, columns = heads * l.head_dim;
    const int64_t tiles_a_head = tiles_for(s.budget), of_head = tiles_a_head * kTileTokens;
    const int64_t together = owners_together(k, heads), width = of_head + kMaxRows;
    const Shape all_tiles = {o * h * tiles_a_head, static_cast<int64_t>(l.tile_bytes()) / h};
    WantedTensors all = {
        {&tiles, DType::kU8, all_tiles},
        {&kv.tiles, DType::kI64, {o, h, tiles_a_head}},
        {&kv.tokens, DType::kI32, {o, h, of_head}},
        {&kv.ranks, DType::kI32, {o, h, of_head}},
        {&kv.scores, DType::kF32, {o, h, of_head}},
        {&kv.counts, DType::kI32, {o, h}},
        {&kv.budgets, DType::kI32, {o, h}},
        {&shares, DType::kF32, {heads}},
        {&kv_of_head, DType::kI32, {together * heads}},
        {&queries, DType::kF32, {kMaxRows, counted(s, readers) * columns}},
        {&out, DType::kF32, {1, together * columns}},
        {&weights, DType::kF32, {o * heads, width}},
        {&tops, DType::kF32, {o * heads, tiles_for(width)}},
        {&totals, DType::kF32, {o * heads, 2}},
        {&pooled, DType::kF32, {o, h, of_head + 1}},
        {&row_totals, DType::kF32, {kPrefillRows, heads, 2}},
        {&sums, DType::kF32, {heads, n}},
        {&zeros, DType::kF32, {std::max(o * h * (of_head + 1), heads * n)}},
        {&prompt_weights, DType::kF32, {readers.places() * h, n}},
        {&scores, DType::kF32, {h, n}},
        {&keys, DType::kI64, {h, 2 * n}},
        {&order, DType::kI32, {h, of_head}},
        {&numbers, DType::kI32, {kMaxRows}},
        {&slot, DType::kI32, {1}},
        {&sequence, DType::kI32, {1}},
        {&ancestor, DType::kI32, {1, kMaxRows}},
    };
    if (readers.any_strict()) all.push_back({&slot_before, DType::kI32, {1}});
    if (s.returns) want_copies(all, saved, kept());
    return all;
}

size_t HeavyMemory::bytes(const KvShape& kv, const EvictionShape& s, const KvReaders& readers) {
    return bytes_of(HeavyMemory().wants(kv, s, readers));
}

Tensor HeavyMemory::weights_of(int64_t place, int64_t tokens) const {
    const int64_t heads = kv.layout.kv_heads;
    return {prompt_weights.slice_rows(place * heads, heads).data(), DType::kF32, {heads, tokens}};
}

void HeavyMemory::take(DeviceArena& device, const KvShape& k, const EvictionShape& s, const KvReaders& readers) {
    take_all(device, wants(k, s, readers));
    kv.layout = k.layout;
}

}  // namespace trireme
