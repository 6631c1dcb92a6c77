#include "offload/retrieved/set_cache.h"

#include "runtime/error.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;

}  // namespace

MemoryBytes SetCache::memory_for(const KvShape& s) {
    const KvLayout& l = s.layout;
    return {.device = static_cast<size_t>(s.owner_layers) *
                      (DeviceArena::bytes_of(stored_type(l.k_type), l.staged_shape(l.k_type)) +
                       DeviceArena::bytes_of(stored_type(l.v_type), l.staged_shape(l.v_type)))};
}

SetCache::SetCache(Device& device, Stream& compute, const KvShape& kv, KvSet& set)
    : KvCache(kv, {.most_slots = std::min(kv.context, set.most_slots() + kMaxRows),
                   .visible = set.visible(),
                   .memory = memory_for(kv)}),
      compute_(compute),
      set_(set),
      device_(device, memory_for(kv).device) {
    for (OwnerIndex owner; owner.i < kv.owner_layers; ++owner) {
        LayerKv& layer = layers_.emplace_back(set.layer(owner));
        layer.staged_k = device_.take(stored_type(kv.layout.k_type), kv.layout.staged_shape(kv.layout.k_type));
        layer.staged_v = device_.take(stored_type(kv.layout.v_type), kv.layout.staged_shape(kv.layout.v_type));
    }
}

int64_t SetCache::adopt_length() {
    set_.taken_over();
    commit(0, set_.tokens());
    return set_.tokens();
}

void SetCache::keep(Kernels&, int64_t, std::span<const int32_t>) {
    fail(Exit::kInternal, "a set's cache: rows are kept by the full cache");
}

void SetCache::truncate(int64_t sequence, int64_t n) {
    check(n == set_.tokens(), "a set's cache: truncated to {} tokens, the full cache has {}", n, set_.tokens());
    commit(sequence, n);
}

void SetCache::begin_prefill(int64_t, int64_t) {
    fail(Exit::kInternal, "a set's cache: prompts are read by the full cache");
}

}  // namespace trireme
