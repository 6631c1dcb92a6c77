#include "model/checkpoint/tensor_names.h"

#include <string_view>

#include "runtime/error.h"

namespace trireme {
namespace {

struct NamePair {
    std::string_view hf, gguf;
};
constexpr NamePair kOuter[] = {{"model.embed_tokens.weight", "token_embd.weight"},
                               {"model.norm.weight", "output_norm.weight"},
                               {"lm_head.weight", "output.weight"}};
constexpr NamePair kInLayer[] = {{"input_layernorm.weight", "attn_norm.weight"},
                                 {"self_attn.q_proj.weight", "attn_q.weight"},
                                 {"self_attn.k_proj.weight", "attn_k.weight"},
                                 {"self_attn.v_proj.weight", "attn_v.weight"},
                                 {"self_attn.o_proj.weight", "attn_output.weight"},
                                 {"self_attn.q_proj.bias", "attn_q.bias"},
                                 {"self_attn.k_proj.bias", "attn_k.bias"},
                                 {"self_attn.v_proj.bias", "attn_v.bias"},
                                 {"self_attn.o_proj.bias", "attn_output.bias"},
                                 {"self_attn.q_norm.weight", "attn_q_norm.weight"},
                                 {"self_attn.k_norm.weight", "attn_k_norm.weight"},
                                 {"self_attn.qkv_proj.weight", "attn_qkv.weight"},
                                 {"post_attention_layernorm.weight", "ffn_norm.weight"},
                                 {"mlp.gate_proj.weight", "ffn_gate.weight"},
                                 {"mlp.up_proj.weight", "ffn_up.weight"},
                                 {"mlp.gate_up_proj.weight", "ffn_up.weight"},
                                 {"mlp.down_proj.weight", "ffn_down.weight"}};
constexpr std::string_view kLayers = "model.layers.";

/// The layer's number and the name within it: "3", "mlp.up_proj.weight". Empty for tensors outside the layers.
struct LayerName {
    std::string_view layer, name;
};
LayerName in_layer(std::string_view name) {
    if (!name.starts_with(kLayers)) return {};
    const size_t dot = name.find('.', kLayers.size());
    return {name.substr(kLayers.size(), dot - kLayers.size()), name.substr(dot + 1)};
}

std::string gguf_name(std::string_view name) {
    const auto& [layer, inner] = in_layer(name);
    for (const auto& [hf, gguf] : kOuter) {
        if (name == hf) return std::string(gguf);
    }
    for (const auto& [hf, gguf] : kInLayer) {
        if (inner == hf) return fmt::format("blk.{}.{}", layer, gguf);
    }
    fail(Exit::kInternal, "'{}' has no name in GGUF", name);
}

}  // namespace

FileTensor in_safetensors(const LlamaConfig& c, const ExpectedTensor& tensor) {
    FileTensor there = {tensor.name, tensor.shape};
    if (!c.family->fused) return there;
    const int64_t q = c.n_heads * c.head_dim, kv = c.n_kv_heads * c.head_dim;
    struct Part {
        std::string_view name, whole;
        int64_t row0, rows;
    };
    const Part parts[] = {{"self_attn.q_proj.weight", "self_attn.qkv_proj.weight", 0, q + 2 * kv},
                          {"self_attn.k_proj.weight", "self_attn.qkv_proj.weight", q, q + 2 * kv},
                          {"self_attn.v_proj.weight", "self_attn.qkv_proj.weight", q + kv, q + 2 * kv},
                          {"mlp.gate_proj.weight", "mlp.gate_up_proj.weight", 0, 2 * c.ffn_dim},
                          {"mlp.up_proj.weight", "mlp.gate_up_proj.weight", c.ffn_dim, 2 * c.ffn_dim}};
    const auto& [layer, inner] = in_layer(tensor.name);
    for (const Part& part : parts) {
        if (inner == part.name)
            return {fmt::format("{}{}.{}", kLayers, layer, part.whole), {part.rows, c.dim}, part.row0};
    }
    return there;
}

bool paired_in_gguf(const Architecture& family, std::string_view name) {
    return family.gguf_pairs && (name.find("q_proj.") != name.npos || name.find("k_proj.") != name.npos);
}

FileTensor in_gguf(const LlamaConfig& c, const ExpectedTensor& tensor) {
    FileTensor there = in_safetensors(c, tensor);
    there.name = gguf_name(there.name);
    return there;
}

}  // namespace trireme
