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
          head_norm{c.head_dim},
          wo{c.dim, q_rows},
          gate_up{2 * shard.ffn_dim, c.dim},
          down{c.dim, shard.ffn_dim},
          embedding{c.vocab, c.dim},
          head{shard.vocab, c.dim} {}

    Shape qkv(int64_t l) const {
        return {q_rows + (config.layer_map.owns(LayerIndex(l)) ? 2 * kv_rows : 0), config.dim};
    }

    Shape qkv_bias(int64_t l) const { return {1, qkv(l)[0]}; }
    /// Elements of a layer's norms and biases.
    int64_t small_elements(int64_t l) const {
        const int64_t head_norms = config.family->qk_norm ? (config.layer_map.owns(LayerIndex(l)) ? 2 : 1) : 0;
        return 2 * config.dim + (config.qkv_bias ? qkv(l)[0] : 0) + (config.o_bias ? config.dim : 0) +
               head_norms * config.head_dim;
    }

    const LlamaConfig& config;
    int64_t q_rows, kv_rows;
    Shape norm, head_norm, wo, gate_up, down, embedding, head;
};

/// Adds the rows [row0, row0 + to.rows()) of a tensor with a row for each element of query or key heads. If only the
/// first r of h elements rotate, their pairs (i, i + r/2) go to (i, i + h/2), and the others fill the gaps in order.
void add_heads(const LlamaConfig& c, const std::string& name, int64_t row0, const Tensor& to,
               std::vector<WeightPiece>& pieces) {
    const int64_t h = c.head_dim, r = c.rope.dim(h), rest = (h - r) / 2;
    if (r == h) return pieces.push_back({name, row0, 0, to});
    struct Run {
        int64_t from, to, n;
    };
    const Run runs[] = {{0, 0, r / 2}, {r, r / 2, rest}, {r / 2, h / 2, r / 2}, {r + rest, h / 2 + r / 2, rest}};
    for (int64_t head = 0; head < to.rows(); head += h) {
        for (const Run& run : runs) {
            if (run.n > 0) pieces.push_back({name, row0 + head + run.from, 0, to.slice_rows(head + run.to, run.n)});
        }
    }
}

}  // namespace

size_t Weights::bytes_for(const LlamaConfig& c, const Shard& shard, DType dtype) {
    const Shapes s(c, shard);
    size_t bytes = DeviceArena::bytes_of(dtype, s.embedding) + DeviceArena::bytes_of(DType::kF32, s.norm);
    if (!c.tied_embeddings) bytes += DeviceArena::bytes_of(dtype, s.head);
    bytes += DeviceArena::bytes_of(DType::kI32, Shape{shard.n_heads});
    for (int64_t l = 0; l < c.n_layers; ++l) {
        const bool owns = c.layer_map.owns(LayerIndex(l));
        bytes += 2 * DeviceArena::bytes_of(DType::kF32, s.norm);
        if (c.qkv_bias) bytes += DeviceArena::bytes_of(DType::kF32, s.qkv_bias(l));
        if (c.family->qk_norm) bytes += (owns ? 2 : 1) * DeviceArena::bytes_of(DType::kF32, s.head_norm);
        if (c.o_bias) bytes += DeviceArena::bytes_of(DType::kF32, Shape{1, c.dim});
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
        norms += times * (step == Op::kLayer ? s.small_elements(layer.i) : s.norm.elements());
    }
    return static_cast<size_t>(elements) * size_of(dtype) + static_cast<size_t>(norms) * sizeof(float);
}

Weights::Weights(Device& device, const WeightSource& source, const Shard& shard, DType dtype, const Progress& progress,
                 int64_t context)
    : config_(source.config()),
      shard_(shard),
      dtype_(dtype),
      arena_(device, bytes_for(config_, shard, dtype)),
      bytes_per_step_(bytes_per_step_for(config_, shard, dtype)) {
    config_.rope.choose_factors(context > 0 ? context : config_.context);
    const LlamaConfig& c = config_;
    const Shapes s(c, shard);

    std::vector<WeightPiece> pieces;
    embedding = arena_.take(dtype, s.embedding);
    pieces.push_back({"model.embed_tokens.weight", 0, 0, embedding});
    for (int64_t l = 0; l < c.n_layers; ++l) {
        LayerWeights w;
        w.attn_norm = arena_.take(DType::kF32, s.norm);
        w.wqkv = arena_.take(dtype, s.qkv(l));
        if (c.qkv_bias) w.qkv_bias = arena_.take(DType::kF32, s.qkv_bias(l));
        if (c.family->qk_norm) w.q_norm = arena_.take(DType::kF32, s.head_norm);
        if (c.family->qk_norm && c.layer_map.owns(LayerIndex(l))) w.k_norm = arena_.take(DType::kF32, s.head_norm);
        w.wo = arena_.take(dtype, s.wo);
        if (c.o_bias) w.o_bias = arena_.take(DType::kF32, Shape{1, c.dim});
        w.ffn_norm = arena_.take(DType::kF32, s.norm);
        w.gate_up = arena_.take(dtype, s.gate_up);
        w.down = arena_.take(dtype, s.down);

        const std::string at = fmt::format("model.layers.{}.", l);
        const int64_t head_row = shard.head_begin * c.head_dim, kv_row = shard.kv_begin * c.head_dim;
        pieces.push_back({at + "input_layernorm.weight", 0, 0, w.attn_norm});
        const int64_t k_row = s.q_rows, v_row = s.q_rows + s.kv_rows;
        const bool owns = c.layer_map.owns(LayerIndex(l));
        add_heads(c, at + "self_attn.q_proj.weight", head_row, w.wqkv.first_rows(s.q_rows), pieces);
        if (owns) {
            add_heads(c, at + "self_attn.k_proj.weight", kv_row, w.wqkv.slice_rows(k_row, s.kv_rows), pieces);
            pieces.push_back({at + "self_attn.v_proj.weight", kv_row, 0, w.wqkv.slice_rows(v_row, s.kv_rows)});
        }
        if (c.qkv_bias) {
            const Tensor bias(w.qkv_bias.data(), DType::kF32, Shape{w.wqkv.rows()});
            add_heads(c, at + "self_attn.q_proj.bias", head_row, bias.first_rows(s.q_rows), pieces);
            if (owns) {
                add_heads(c, at + "self_attn.k_proj.bias", kv_row, bias.slice_rows(k_row, s.kv_rows), pieces);
                pieces.push_back({at + "self_attn.v_proj.bias", kv_row, 0, bias.slice_rows(v_row, s.kv_rows)});
            }
        }
        if (w.q_norm) add_heads(c, at + "self_attn.q_norm.weight", 0, w.q_norm, pieces);
        if (w.k_norm) add_heads(c, at + "self_attn.k_norm.weight", 0, w.k_norm, pieces);
        pieces.push_back({at + "self_attn.o_proj.weight", 0, head_row, w.wo});
        if (c.o_bias) {
            pieces.push_back({at + "self_attn.o_proj.bias", 0, 0, Tensor(w.o_bias.data(), DType::kF32, Shape{c.dim})});
        }
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
