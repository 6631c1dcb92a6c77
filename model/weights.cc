#include "model/weights.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "model/passes.h"
#include "model/weight_loader.h"
#include "runtime/error.h"

namespace trireme {
namespace {

using DeviceArena = Arena<Space::kDevice>;

/// Shapes of this rank's tensors.
struct Shapes {
    Shapes(const LlamaConfig& c, const Shard& shard)
        : config(c),
          q_rows(shard.n_heads * c.head_dim),
          kv_rows(shard.n_kv_heads * c.head_dim),
          norm{c.dim},
          wo{c.dim, q_rows},
          gate_up{2 * shard.ffn_dim, c.dim},
          down{c.dim, shard.ffn_dim},
          embedding{c.vocab, c.dim},
          head{shard.vocab, c.dim} {}

    Shape qkv(int64_t l) const {
        return {q_rows + (config.layer_map.owns(LayerIndex(l)) ? 2 * kv_rows : 0), config.dim};
    }

    const LlamaConfig& config;
    int64_t q_rows, kv_rows;
    Shape norm, wo, gate_up, down, embedding, head;
};

}  // namespace

size_t Weights::bytes_for(const LlamaConfig& c, const Shard& shard, DType dtype) {
    const Shapes s(c, shard);
    size_t bytes = DeviceArena::bytes_of(dtype, s.embedding) + DeviceArena::bytes_of(DType::kF32, s.norm);
    if (!c.tied_embeddings) bytes += DeviceArena::bytes_of(dtype, s.head);
    bytes += DeviceArena::bytes_of(DType::kI32, Shape{shard.n_heads});
    for (int64_t l = 0; l < c.n_layers; ++l) {
        bytes += 2 * DeviceArena::bytes_of(DType::kF32, s.norm);
        for (const Shape& w : {s.qkv(l), s.wo, s.gate_up, s.down}) bytes += DeviceArena::bytes_of(dtype, w);
    }
    return bytes;
}

size_t Weights::bytes_per_step_for(const LlamaConfig& c, const Shard& shard, DType dtype, int64_t passes) {
    using Op = ForwardStep::Op;
    const Shapes s(c, shard);
    int64_t elements = s.head.elements(), norms = s.norm.elements(), times = 1;
    for (const auto& [step, layer] : forward_steps(c.layer_map, /*repeats=*/passes > 1)) {
        if (step == Op::kKeep) times = passes - 1;
        if (step == Op::kReturn) times = 1;
        if (step != Op::kLayer && step != Op::kKeys) continue;
        const int64_t rest = s.wo.elements() + s.gate_up.elements() + s.down.elements();
        elements += times * (s.qkv(layer.i).elements() + (step == Op::kLayer ? rest : 0));
        norms += times * (step == Op::kLayer ? 2 : 1) * s.norm.elements();
    }
    return static_cast<size_t>(elements) * size_of(dtype) + static_cast<size_t>(norms) * sizeof(float);
}

Weights::Weights(Device& device, const WeightSource& source, const Shard& shard, DType dtype, const Progress& progress)
    : config_(source.config()),
      shard_(shard),
      dtype_(dtype),
      arena_(device, bytes_for(config_, shard, dtype)),
      bytes_per_step_(bytes_per_step_for(config_, shard, dtype)) {
    const LlamaConfig& c = config_;
    const Shapes s(c, shard);

    std::vector<WeightPiece> pieces;
    embedding = arena_.take(dtype, s.embedding);
    pieces.push_back({"model.embed_tokens.weight", 0, 0, embedding});
    for (int64_t l = 0; l < c.n_layers; ++l) {
        LayerWeights w;
        w.attn_norm = arena_.take(DType::kF32, s.norm);
        w.wqkv = arena_.take(dtype, s.qkv(l));
        w.wo = arena_.take(dtype, s.wo);
        w.ffn_norm = arena_.take(DType::kF32, s.norm);
        w.gate_up = arena_.take(dtype, s.gate_up);
        w.down = arena_.take(dtype, s.down);

        const std::string at = fmt::format("model.layers.{}.", l);
        const int64_t head_row = shard.head_begin * c.head_dim, kv_row = shard.kv_begin * c.head_dim;
        pieces.push_back({at + "input_layernorm.weight", 0, 0, w.attn_norm});
        pieces.push_back({at + "self_attn.q_proj.weight", head_row, 0, w.wqkv.first_rows(s.q_rows)});
        if (c.layer_map.owns(LayerIndex(l))) {
            pieces.push_back({at + "self_attn.k_proj.weight", kv_row, 0, w.wqkv.slice_rows(s.q_rows, s.kv_rows)});
            pieces.push_back(
                {at + "self_attn.v_proj.weight", kv_row, 0, w.wqkv.slice_rows(s.q_rows + s.kv_rows, s.kv_rows)});
        }
        pieces.push_back({at + "self_attn.o_proj.weight", 0, head_row, w.wo});
        pieces.push_back({at + "post_attention_layernorm.weight", 0, 0, w.ffn_norm});
        pieces.push_back({at + "mlp.gate_proj.weight", shard.ffn_begin, 0, w.gate_up.first_rows(shard.ffn_dim)});
        pieces.push_back(
            {at + "mlp.up_proj.weight", shard.ffn_begin, 0, w.gate_up.slice_rows(shard.ffn_dim, shard.ffn_dim)});
        pieces.push_back({at + "mlp.down_proj.weight", 0, shard.ffn_begin, w.down});
        layers.push_back(w);
    }
    final_norm = arena_.take(DType::kF32, s.norm);
    pieces.push_back({"model.norm.weight", 0, 0, final_norm});
    if (c.tied_embeddings) {
        lm_head = embedding.slice_rows(shard.vocab_begin, shard.vocab);
    } else {
        lm_head = arena_.take(dtype, s.head);
        pieces.push_back({"lm_head.weight", shard.vocab_begin, 0, lm_head});
    }
    kv_of_head = arena_.take(DType::kI32, Shape{shard.n_heads});

    const std::unique_ptr<Stream> stream = device.make_stream("load");
    load_pieces(device, *stream, source, pieces, progress);
    const Buffer<Space::kHost> heads(device, kv_of_head.bytes());
    std::memcpy(heads.data(), shard.kv_of_head.data(), heads.bytes());
    stream->copy(kv_of_head, heads.tensor(DType::kI32, kv_of_head.shape()));
    stream->synchronize();  // reports a failed copy
}

}  // namespace trireme
