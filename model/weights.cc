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

/// Rows of a checkpoint's tensor.
struct TensorRows {
    std::string name;
    int64_t row0, rows;
    bool heads = false;  // a row for each element of query or key heads
};

/// A matrix of this rank: these rows, and the columns [col0, col0 + cols).
struct MatrixPlan {
    std::vector<TensorRows> rows;
    int64_t col0, cols;

    int64_t all_rows() const {
        int64_t n = 0;
        for (const TensorRows& r : rows) n += r.rows;
        return n;
    }
    /// Whether some of the tensors are in blocks.
    bool blocks(const WeightFormat& format) const {
        return cols > 0 &&
               std::ranges::any_of(rows, [&](const TensorRows& r) { return is_quantised(format.type_of(r.name)); });
    }
    /// The type of a matrix without blocks: the one type of its tensors, or the type of products.
    DType plain_type(const WeightFormat& format) const {
        const StoredType first = format.type_of(rows[0].name);
        const bool one =
            std::ranges::all_of(rows, [&](const TensorRows& r) { return format.type_of(r.name) == first; });
        return one && !is_quantised(first) ? plain_dtype(first) : format.dtype();
    }
    /// The type in memory of some of its rows.
    StoredType type_of(const TensorRows& r, const WeightFormat& format) const {
        return blocks(format) ? format.type_of(r.name) : stored_as(plain_type(format));
    }
    /// Rows in memory: whole tiles if they are interleaved.
    int64_t stored_rows(const TensorRows& r, const WeightFormat& format) const {
        return blocks(format) && format.interleaved(type_of(r, format)) ? interleaved_rows(r.rows) : r.rows;
    }
    /// Elements of the first block that belong to another rank's columns.
    int64_t skip(StoredType type) const { return col0 % layout_of(type).elements; }
    /// Bytes of a row.
    int64_t stride(StoredType type) const {
        const BlockLayout l = layout_of(type);
        return (skip(type) + cols + l.elements - 1) / l.elements * static_cast<int64_t>(l.bytes);
    }
    /// The offset of rows of `type` that follow `bytes` of rows of `last`. A GPU reads words, so a type begins at one.
    static int64_t place(int64_t bytes, StoredType last, StoredType type) {
        return type == last ? bytes : (bytes + 15) / 16 * 16;
    }
    size_t bytes(const WeightFormat& format) const {
        int64_t n = 0;
        StoredType last = type_of(rows[0], format);
        for (const TensorRows& r : rows) {
            const StoredType type = type_of(r, format);
            n = place(n, last, type) + stored_rows(r, format) * stride(type);
            last = type;
        }
        return static_cast<size_t>(n);
    }
    /// Bytes that an arena uses for it.
    size_t taken(const WeightFormat& format) const {
        return DeviceArena::bytes_of(DType::kU8, Shape{static_cast<int64_t>(bytes(format))});
    }
};

/// The matrices of this rank, and the shapes of its norms and biases.
struct Shapes {
    Shapes(const LlamaConfig& c, const Shard& s)
        : config(c),
          shard(s),
          q_rows(s.n_heads * c.head_dim),
          kv_rows(s.n_kv_heads * c.head_dim),
          norm{c.dim},
          head_norm{c.head_dim} {}

    static std::string at(int64_t l, const char* tensor) { return fmt::format("model.layers.{}.{}.weight", l, tensor); }
    MatrixPlan qkv(int64_t l) const {
        MatrixPlan m = {{{at(l, "self_attn.q_proj"), shard.head_begin * config.head_dim, q_rows, true}}, 0, config.dim};
        if (config.layer_map.owns(LayerIndex(l))) {
            const int64_t kv = shard.kv_begin * config.head_dim;
            m.rows.push_back({at(l, "self_attn.k_proj"), kv, kv_rows, true});
            m.rows.push_back({at(l, "self_attn.v_proj"), kv, kv_rows});
        }
        return m;
    }
    MatrixPlan wo(int64_t l) const {
        return {{{at(l, "self_attn.o_proj"), 0, config.dim}}, shard.head_begin * config.head_dim, q_rows};
    }
    MatrixPlan gate_up(int64_t l) const {
        return {{{at(l, "mlp.gate_proj"), shard.ffn_begin, shard.ffn_dim},
                 {at(l, "mlp.up_proj"), shard.ffn_begin, shard.ffn_dim}},
                0,
                config.dim};
    }
    MatrixPlan down(int64_t l) const {
        return {{{at(l, "mlp.down_proj"), 0, config.dim}}, shard.ffn_begin, shard.ffn_dim};
    }
    MatrixPlan embedding() const { return {{{"model.embed_tokens.weight", 0, config.vocab}}, 0, config.dim}; }
    MatrixPlan head() const {
        const char* tensor = config.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
        return {{{tensor, shard.vocab_begin, shard.vocab}}, 0, config.dim};
    }

    Shape qkv_bias(int64_t l) const { return {1, qkv(l).all_rows()}; }
    /// Elements of a layer's norms and biases.
    int64_t small_elements(int64_t l) const {
        const int64_t head_norms = config.family->qk_norm ? (config.layer_map.owns(LayerIndex(l)) ? 2 : 1) : 0;
        return 2 * config.dim + (config.qkv_bias ? qkv_bias(l)[1] : 0) + (config.o_bias ? config.dim : 0) +
               head_norms * config.head_dim;
    }

    const LlamaConfig& config;
    const Shard& shard;
    int64_t q_rows, kv_rows;
    Shape norm, head_norm;
};

/// Calls add(first row of the tensor, first row of the destination, rows) for runs of the rows [row0, row0 + n) of a
/// tensor with a row for each element of query or key heads. If only the first r of h elements rotate, their pairs
/// (i, i + r/2) go to (i, i + h/2), and the others fill the gaps in order.
template <class Add>
void head_runs(const LlamaConfig& c, int64_t row0, int64_t n, const Add& add) {
    const int64_t h = c.head_dim, r = c.rope.dim(h), rest = (h - r) / 2;
    if (r == h) return add(row0, 0, n);
    struct Run {
        int64_t from, to, n;
    };
    const Run runs[] = {{0, 0, r / 2}, {r, r / 2, rest}, {r / 2, h / 2, r / 2}, {r + rest, h / 2 + r / 2, rest}};
    for (int64_t head = 0; head < n; head += h) {
        for (const Run& run : runs) {
            if (run.n > 0) add(row0 + head + run.from, head + run.to, run.n);
        }
    }
}

/// A vector with an element for each row of query or key heads.
void add_heads(const LlamaConfig& c, const std::string& name, int64_t row0, const Tensor& to,
               std::vector<WeightPiece>& pieces) {
    head_runs(c, row0, to.rows(), [&](int64_t from, int64_t row, int64_t n) {
        pieces.push_back({name, from, 0, to.slice_rows(row, n)});
    });
}

/// Takes a matrix from the arena and adds the pieces that fill it.
WeightMatrix take(const LlamaConfig& c, const MatrixPlan& plan, const WeightFormat& format, DeviceArena& arena,
                  std::vector<WeightPiece>& pieces) {
    auto* data = static_cast<char*>(arena.take(DType::kU8, {static_cast<int64_t>(plan.bytes(format))}).data());
    int64_t next = 0;
    StoredType last = plan.type_of(plan.rows[0], format);
    const bool blocks = plan.blocks(format);
    WeightMatrix all = blocks
                           ? WeightMatrix(plan.cols, plan.skip(format.type_of(plan.rows[0].name)), format.activations())
                           : WeightMatrix(Tensor(data, plan.plain_type(format), {plan.all_rows(), plan.cols}));
    for (const TensorRows& r : plan.rows) {
        const StoredType type = plan.type_of(r, format);
        next = MatrixPlan::place(next, last, type);
        const WeightRows to = {type, data + next, r.rows, plan.stride(type), blocks && format.interleaved(type)};
        next += plan.stored_rows(r, format) * to.stride;
        last = type;
        if (blocks) all.add(to);
        const auto add = [&](int64_t from, int64_t row, int64_t n) {
            char* at = static_cast<char*>(to.data) + row * to.stride;
            if (to.interleaved) {
                const Tensor tiles(to.data, DType::kU8, {plan.stored_rows(r, format), to.stride});
                pieces.push_back({r.name, from, plan.col0, tiles, Placing::kTiles, false, type, row, n});
            } else if (is_quantised(type)) {
                pieces.push_back({r.name, from, plan.col0, Tensor(at, DType::kU8, {n, to.stride}), Placing::kBlocks,
                                  format.activations() == ActivationType::kF16});
            } else {
                pieces.push_back({r.name, from, plan.col0, Tensor(at, plain_dtype(type), {n, plan.cols})});
            }
        };
        if (r.heads) {
            head_runs(c, r.row0, r.rows, add);
        } else {
            add(r.row0, 0, r.rows);
        }
    }
    return all;
}

}  // namespace

size_t Weights::bytes_for(const LlamaConfig& c, const Shard& shard, const WeightFormat& format) {
    const Shapes s(c, shard);
    size_t bytes = s.embedding().taken(format) + DeviceArena::bytes_of(DType::kF32, s.norm);
    if (!c.tied_embeddings) bytes += s.head().taken(format);
    bytes += DeviceArena::bytes_of(DType::kI32, Shape{shard.n_heads});
    for (int64_t l = 0; l < c.n_layers; ++l) {
        const bool owns = c.layer_map.owns(LayerIndex(l));
        bytes += 2 * DeviceArena::bytes_of(DType::kF32, s.norm);
        if (c.qkv_bias) bytes += DeviceArena::bytes_of(DType::kF32, s.qkv_bias(l));
        if (c.family->qk_norm) bytes += (owns ? 2 : 1) * DeviceArena::bytes_of(DType::kF32, s.head_norm);
        if (c.o_bias) bytes += DeviceArena::bytes_of(DType::kF32, Shape{1, c.dim});
        for (const MatrixPlan& m : {s.qkv(l), s.wo(l), s.gate_up(l), s.down(l)}) bytes += m.taken(format);
    }
    return bytes;
}

size_t Weights::bytes_per_step_for(const LlamaConfig& c, const Shard& shard, const WeightFormat& format,
                                   int64_t passes) {
    using Op = ForwardStep::Op;
    const Shapes s(c, shard);
    size_t matrices = s.head().bytes(format);
    int64_t norms = s.norm.elements(), times = 1;
    for (const auto& [step, layer] : forward_steps(c.layer_map, /*repeats=*/passes > 1)) {
        if (step == Op::kKeep) times = passes - 1;
        if (step == Op::kReturn) times = 1;
        if (step != Op::kLayer && step != Op::kKeys) continue;
        size_t bytes = s.qkv(layer.i).bytes(format);
        if (step == Op::kLayer) {
            for (const MatrixPlan& m : {s.wo(layer.i), s.gate_up(layer.i), s.down(layer.i)}) bytes += m.bytes(format);
        }
        matrices += static_cast<size_t>(times) * bytes;
        norms += times * (step == Op::kLayer ? s.small_elements(layer.i) : s.norm.elements());
    }
    return matrices + static_cast<size_t>(norms) * sizeof(float);
}

Weights::Weights(Device& device, const WeightSource& source, const Shard& shard, const WeightFormat& format,
                 const Progress& progress, int64_t context)
    : config_(source.config()),
      shard_(shard),
      dtype_(format.dtype()),
      in_blocks_(format.has_blocks()),
      arena_(device, bytes_for(config_, shard, format)),
      bytes_per_step_(bytes_per_step_for(config_, shard, format)) {
    config_.rope.choose_factors(context > 0 ? context : config_.context);
    const LlamaConfig& c = config_;
    const Shapes s(c, shard);

    std::vector<WeightPiece> pieces;
    const auto matrix = [&](const MatrixPlan& plan) { return take(c, plan, format, arena_, pieces); };
    const auto vector = [&](const std::string& name, const Shape& shape) {
        const Tensor to = arena_.take(DType::kF32, shape);
        pieces.push_back({name, 0, 0, Tensor(to.data(), DType::kF32, Shape{to.shape().elements()})});
        return to;
    };
    embedding = matrix(s.embedding());
    for (int64_t l = 0; l < c.n_layers; ++l) {
        LayerWeights w;
        const std::string at = fmt::format("model.layers.{}.", l);
        const bool owns = c.layer_map.owns(LayerIndex(l));
        w.attn_norm = vector(at + "input_layernorm.weight", s.norm);
        w.wqkv = matrix(s.qkv(l));
        if (c.qkv_bias) {
            w.qkv_bias = arena_.take(DType::kF32, s.qkv_bias(l));
            const int64_t head_row = shard.head_begin * c.head_dim, kv_row = shard.kv_begin * c.head_dim;
            const int64_t k_row = s.q_rows, v_row = s.q_rows + s.kv_rows;
            const Tensor bias(w.qkv_bias.data(), DType::kF32, Shape{w.wqkv.rows()});
            add_heads(c, at + "self_attn.q_proj.bias", head_row, bias.first_rows(s.q_rows), pieces);
            if (owns) {
                add_heads(c, at + "self_attn.k_proj.bias", kv_row, bias.slice_rows(k_row, s.kv_rows), pieces);
                pieces.push_back({at + "self_attn.v_proj.bias", kv_row, 0, bias.slice_rows(v_row, s.kv_rows)});
            }
        }
        if (c.family->qk_norm) {
            w.q_norm = arena_.take(DType::kF32, s.head_norm);
            add_heads(c, at + "self_attn.q_norm.weight", 0, w.q_norm, pieces);
            if (owns) w.k_norm = arena_.take(DType::kF32, s.head_norm);
            if (owns) add_heads(c, at + "self_attn.k_norm.weight", 0, w.k_norm, pieces);
        }
        w.wo = matrix(s.wo(l));
        if (c.o_bias) w.o_bias = vector(at + "self_attn.o_proj.bias", Shape{1, c.dim});
        w.ffn_norm = vector(at + "post_attention_layernorm.weight", s.norm);
        w.gate_up = matrix(s.gate_up(l));
        w.down = matrix(s.down(l));
        layers.push_back(w);
    }
    final_norm = vector("model.norm.weight", s.norm);
    lm_head = c.tied_embeddings ? embedding.slice_rows(shard.vocab_begin, shard.vocab) : matrix(s.head());
    kv_of_head = arena_.take(DType::kI32, Shape{shard.n_heads});

    const std::unique_ptr<Stream> stream = device.make_stream("load");
    load_pieces(device, *stream, source, pieces, progress);
    const Buffer<Space::kHost> heads(device, kv_of_head.bytes());
    std::memcpy(heads.data(), shard.kv_of_head.data(), heads.bytes());
    stream->copy(kv_of_head, heads.tensor(DType::kI32, kv_of_head.shape()));
    stream->synchronize();  // reports a failed copy
}

}  // namespace trireme
