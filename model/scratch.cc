#include "model/scratch.h"

#include "kernels/distribution.h"
#include "kernels/kv.h"

namespace trireme {
namespace {

using HostArena = Arena<Space::kHost>;

const Shape kDrawn{kMaxRows}, kProposed{kMaxRows, kProposalWords}, kAccepted{kMaxRows + 1};

Shape all_logits(const Shard& shard) {
    return {shard.ranks, kMaxRows, shard.vocab_part};
}
Shape changes(const LlamaConfig& c) {
    return {c.layer_map.upward() ? kPrefillRows : 0, 2};
}
/// The host buffer of logits in [rows, vocab] order; empty for one rank, whose gathered logits have that order.
Shape seen_logits(const LlamaConfig& c, const Shard& shard) {
    return {shard.ranks == 1 ? 0 : kMaxRows, c.vocab};
}

}  // namespace

std::array<Scratch::Want, 19> Scratch::wants(const LlamaConfig& c, const Shard& shard) {
    const int64_t q = shard.n_heads * c.head_dim, kv = shard.n_kv_heads * c.head_dim, n = kPrefillRows;
    return {{{&x, {n, c.dim}},
             {&h, {n, c.dim}},
             {&qkv, {n, q + 2 * kv}},
             {&att, {n, q}},
             {&gate_up, {n, 2 * shard.ffn_dim}},
             {&act, {n, shard.ffn_dim}},
             {&last, {kMaxRows, c.dim}},
             {&input, {c.layer_map.upward() ? kMaxRows : 0, c.dim}},
             {&zeros, {c.layer_map.upward() ? n : 0, kv}},
             {&change, changes(c)},
             {&part, {kMaxRows, shard.vocab_part}},
             {&gathered, {shard.ranks == 1 ? 0 : shard.ranks, kMaxRows, shard.vocab_part}},
             {&saved, {shard.ranks, 1, shard.vocab_part}},
             {&uniforms, kDrawn, DType::kI64},
             {&ids, kDrawn, DType::kI32},
             {&ends, kDrawn, DType::kI32},
             {&distributions, {kMaxRows, kRowDistributionWords}, DType::kI64},
             {&proposals, kProposed, DType::kI64},
             {&accepted, kAccepted, DType::kI32}}};
}

MemoryBytes Scratch::memory(const LlamaConfig& c, const Shard& shard) {
    MemoryBytes bytes = {
        .host = HostArena::bytes_of(DType::kF32, all_logits(shard)) +
                HostArena::bytes_of(DType::kF32, seen_logits(c, shard)) + HostArena::bytes_of(DType::kI64, kDrawn) +
                2 * HostArena::bytes_of(DType::kI32, kDrawn) + HostArena::bytes_of(DType::kI64, kProposed) +
                HostArena::bytes_of(DType::kI32, kAccepted) + HostArena::bytes_of(DType::kF32, changes(c))};
    for (const Want& w : Scratch().wants(c, shard)) bytes.device += Arena<Space::kDevice>::bytes_of(w.dtype, w.shape);
    return bytes;
}

Scratch::Scratch(Device& device, const LlamaConfig& c, const Shard& shard)
    : device_(device, memory(c, shard).device), host_(device, memory(c, shard).host) {
    for (const Want& w : wants(c, shard)) *w.tensor = device_.take(w.dtype, w.shape);
    const Shape all = all_logits(shard);
    if (shard.ranks == 1) gathered = Tensor(part.data(), DType::kF32, all);

    gathered_host = host_.take(DType::kF32, all);
    logits = shard.ranks == 1 ? HostTensor(gathered_host.data(), DType::kF32, {kMaxRows, c.vocab}, shard.vocab_part)
                              : host_.take(DType::kF32, seen_logits(c, shard));
    uniforms_host = host_.take(DType::kI64, kDrawn);
    ids_host = host_.take(DType::kI32, kDrawn);
    ends_host = host_.take(DType::kI32, kDrawn);
    proposals_host = host_.take(DType::kI64, kProposed);
    accepted_host = host_.take(DType::kI32, kAccepted);
    change_host = host_.take(DType::kF32, changes(c));
}

}  // namespace trireme
