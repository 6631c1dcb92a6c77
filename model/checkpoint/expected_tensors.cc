#include "model/checkpoint/expected_tensors.h"

#include <algorithm>
#include <iterator>

#include "model/files/limits.h"
#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {

std::vector<ExpectedTensor> expected_tensors(const LlamaConfig& c) {
    const int64_t q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
    std::vector<ExpectedTensor> all;
    all.push_back({"model.embed_tokens.weight", {c.vocab, c.dim}});
    for (int64_t l = 0; l < c.n_layers; ++l) {
        const auto add = [&](const char* name, Shape shape, const char* kind = "weight") {
            all.push_back({fmt::format("model.layers.{}.{}.{}", l, name, kind), shape});
        };
        const bool owns = c.layer_map.owns(LayerIndex(l));
        add("input_layernorm", {c.dim});
        add("self_attn.q_proj", {q, c.dim});
        if (owns) {
            add("self_attn.k_proj", {kv, c.dim});
            add("self_attn.v_proj", {kv, c.dim});
        }
        if (c.qkv_bias) {
            add("self_attn.q_proj", {q}, "bias");
            if (owns) add("self_attn.k_proj", {kv}, "bias");
            if (owns) add("self_attn.v_proj", {kv}, "bias");
        }
        if (c.family->qk_norm) {
            add("self_attn.q_norm", {c.head_dim});
            if (owns) add("self_attn.k_norm", {c.head_dim});
        }
        add("self_attn.o_proj", {c.dim, q});
        if (c.o_bias) add("self_attn.o_proj", {c.dim}, "bias");
        add("post_attention_layernorm", {c.dim});
        add("mlp.gate_proj", {c.ffn_dim, c.dim});
        add("mlp.up_proj", {c.ffn_dim, c.dim});
        add("mlp.down_proj", {c.dim, c.ffn_dim});
    }
    all.push_back({"model.norm.weight", {c.dim}});
    if (!c.tied_embeddings) all.push_back({"lm_head.weight", {c.vocab, c.dim}});
    return all;
}

void TensorProblems::add(std::string_view tensor, std::string_view expected, std::string_view found) {
    if (count_++ < limits::kProblemsShown) lines_.push_back(fmt::format("{}: {} / {}", shown(tensor), expected, found));
}

bool TensorProblems::compare(const ExpectedTensor& want, bool type_supported, std::string_view type_name,
                             const std::vector<uint64_t>& dims) {
    bool same = static_cast<size_t>(want.shape.rank()) == dims.size();
    for (size_t i = 0; same && i < dims.size(); ++i) {
        same = dims[i] == static_cast<uint64_t>(want.shape[static_cast<int>(i)]);
    }
    if (!type_supported) {
        add(want.name, fmt::format("{} of a supported type", want.shape),
            fmt::format("{} {}", dims_text(dims), type_name));
    } else if (!same) {
        add(want.name, fmt::format("{}", want.shape), dims_text(dims));
    }
    return same && type_supported;
}

void TensorProblems::raise(std::string_view what) const {
    if (count_ == 0) return;
    std::string table;
    for (const std::string& line : lines_) table += (table.empty() ? "" : "; ") + line;
    if (count_ > lines_.size()) table += fmt::format("; and {} more", count_ - lines_.size());
    fail(Exit::kData, "{}: {} tensor{} not fit the config (tensor: expected / found): {}", what, count_,
         count_ == 1 ? " does" : "s do", table);
}

DType NaturalType::get() const {
    const auto most = std::max_element(std::begin(elements_), std::end(elements_));
    switch (static_cast<StoredType>(most - std::begin(elements_))) {
        case StoredType::kF32:
            return DType::kF32;
        case StoredType::kBF16:
            return DType::kBF16;
        default:
            return DType::kF16;
    }
}

}  // namespace trireme
