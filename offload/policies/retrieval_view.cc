#include "offload/policies/retrieval_view.h"

#include "runtime/error.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;

Shape staged_shape(const KvLayout& l) {
    return {l.kv_heads, kMaxRows, l.head_dim};
}

}  // namespace

MemoryBytes RetrievalView::memory_for(const KvShape& s) {
    const KvLayout& l = s.layout;
    return {.device = static_cast<size_t>(s.owner_layers) * (DeviceArena::bytes_of(l.k_type, staged_shape(l)) +
                                                             DeviceArena::bytes_of(l.v_type, staged_shape(l)))};
}

RetrievalView::RetrievalView(Device& device, Stream& compute, const KvShape& kv, RetrievalSet& set)
    : KvView(kv), compute_(compute), set_(set), device_(device, memory_for(kv).device) {
    for (OwnerIndex owner; owner.i < kv.owner_layers; ++owner) {
        layers_.push_back({.layout = kv.layout,
                           .tiles = set.tiles(owner),
                           .staged_k = device_.take(kv.layout.k_type, staged_shape(kv.layout)),
                           .staged_v = device_.take(kv.layout.v_type, staged_shape(kv.layout))});
    }
}

int64_t RetrievalView::follow() {
    set_.choose_again(false);
    commit(0, set_.tokens());
    return set_.tokens();
}

void RetrievalView::keep(Kernels&, int64_t, std::span<const int32_t>) {
    fail(Exit::kInternal, "retrieval: rows are kept by the full view");
}

void RetrievalView::truncate(int64_t sequence, int64_t n) {
    check(n == set_.tokens(), "retrieval: truncated to {} tokens, the full view has {}", n, set_.tokens());
    commit(sequence, n);
}

void RetrievalView::begin_prefill(int64_t, int64_t) {
    fail(Exit::kInternal, "retrieval: prompts are read by the full view");
}

}  // namespace trireme
