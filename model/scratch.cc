#include "model/scratch.h"

#include <array>

#include "kernels/kv.h"

namespace trireme {

Scratch::Scratch(Device& device, const LlamaConfig& c, const Shard& shard) {
    const int64_t q = shard.n_heads * c.head_dim, kv = shard.n_kv_heads * c.head_dim, n = kPrefillRows;
    struct Want {
        Tensor* tensor;
        Shape shape;
        DType dtype = DType::kF32;
    };
    const Shape all{shard.ranks, kMaxRows, shard.vocab_part}, drawn{kMaxRows};
    const bool alone = shard.ranks == 1;
    const std::array<Want, 12> wants = {{{&x, {n, c.dim}},
                                         {&h, {n, c.dim}},
                                         {&qkv, {n, q + 2 * kv}},
                                         {&att, {n, q}},
                                         {&gate_up, {n, 2 * shard.ffn_dim}},
                                         {&act, {n, shard.ffn_dim}},
                                         {&last, {kMaxRows, c.dim}},
                                         {&part, {kMaxRows, shard.vocab_part}},
                                         {&gathered, {alone ? 0 : shard.ranks, kMaxRows, shard.vocab_part}},
                                         {&saved, {shard.ranks, 1, shard.vocab_part}},
                                         {&uniforms, drawn, DType::kI64},
                                         {&ids, drawn, DType::kI32}}};
    size_t bytes = 0;
    for (const Want& w : wants) bytes += Arena<Space::kDevice>::bytes_of(w.dtype, w.shape);
    device_ = Arena<Space::kDevice>(device, bytes);
    for (const Want& w : wants) *w.tensor = device_.take(w.dtype, w.shape);
    if (alone) gathered = Tensor(part.data(), DType::kF32, all);

    const Shape rows{alone ? 0 : kMaxRows, c.vocab};
    using HostArena = Arena<Space::kHost>;
    host_ = HostArena(device, HostArena::bytes_of(DType::kF32, all) + HostArena::bytes_of(DType::kF32, rows) +
                                  HostArena::bytes_of(DType::kI64, drawn) + HostArena::bytes_of(DType::kI32, drawn));
    gathered_host = host_.take(DType::kF32, all);
    logits = alone ? HostTensor(gathered_host.data(), DType::kF32, {kMaxRows, c.vocab}, shard.vocab_part)
                   : host_.take(DType::kF32, rows);
    uniforms_host = host_.take(DType::kI64, drawn);
    ids_host = host_.take(DType::kI32, drawn);
}

}  // namespace trireme
