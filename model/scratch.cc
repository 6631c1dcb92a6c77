#include "model/scratch.h"

#include <array>

#include "kernels/kv.h"

namespace trireme {

Scratch::Scratch(Device& device, const LlamaConfig& c, const Shard& shard) {
    const int64_t q = shard.n_heads * c.head_dim, kv = shard.n_kv_heads * c.head_dim, n = kPrefillRows;
    struct Want {
        Tensor* tensor;
        Shape shape;
    };
    const std::array<Want, 9> wants = {{{&x, {n, c.dim}},
                                        {&h, {n, c.dim}},
                                        {&qkv, {n, q + 2 * kv}},
                                        {&att, {n, q}},
                                        {&gate_up, {n, 2 * shard.ffn_dim}},
                                        {&act, {n, shard.ffn_dim}},
                                        {&last, {kMaxRows, c.dim}},
                                        {&part, {kMaxRows, shard.vocab_part}},
                                        {&gathered, {shard.ranks > 1 ? shard.ranks : 0, kMaxRows, shard.vocab_part}}}};
    size_t bytes = 0;
    for (const Want& w : wants) bytes += Arena<Space::kDevice>::bytes_of(DType::kF32, w.shape);
    device_ = Arena<Space::kDevice>(device, bytes);
    for (const Want& w : wants) *w.tensor = device_.take(DType::kF32, w.shape);

    const Shape all{shard.ranks, kMaxRows, shard.vocab_part}, rows{shard.ranks > 1 ? kMaxRows : 0, c.vocab};
    host_ = Arena<Space::kHost>(
        device, Arena<Space::kHost>::bytes_of(DType::kF32, all) + Arena<Space::kHost>::bytes_of(DType::kF32, rows));
    gathered_host = host_.take(DType::kF32, all);
    logits = shard.ranks > 1 ? host_.take(DType::kF32, rows)
                             : HostTensor(gathered_host.data(), DType::kF32, {kMaxRows, c.vocab}, shard.vocab_part);
}

}  // namespace trireme
