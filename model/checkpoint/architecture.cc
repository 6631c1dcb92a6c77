#include "model/checkpoint/architecture.h"

#include <algorithm>

#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {
namespace {

constexpr Architecture kLlama = {.model_type = "llama",
                                 .hf_class = "LlamaForCausalLM",
                                 .gguf = "llama",
                                 .gguf_pairs = true,
                                 .context = 2048,
                                 .kv_heads_required = false,
                                 .eos = 2};

/// LCKV and its older code: Llama with a layer map.
constexpr Architecture with_layer_map(std::string_view model_type, std::string_view hf_class) {
    Architecture a = kLlama;
    a.model_type = model_type;
    a.hf_class = hf_class;
    a.gguf = "";
    a.layer_map = true;
    return a;
}

constexpr Architecture kFamilies[] = {
    kLlama,
    {.model_type = "mistral",
     .hf_class = "MistralForCausalLM",
     .gguf = "",  // their GGUF files say llama
     .biases = Biases::kNone,
     .windows = Windows::kAll,
     .window = 4096,
     .eos = 2},
    {.model_type = "qwen2",
     .hf_class = "Qwen2ForCausalLM",
     .gguf = "qwen2",
     .biases = Biases::kQkv,
     .windows = Windows::kByLayer,
     .context = 32768,
     .window = 4096},
    {.model_type = "qwen3",
     .hf_class = "Qwen3ForCausalLM",
     .gguf = "qwen3",
     .windows = Windows::kByLayer,
     .qk_norm = true,
     .head_dim = 128,
     .context = 32768,
     .window = 4096},
    {.model_type = "phi3",
     .hf_class = "Phi3ForCausalLM",
     .gguf = "phi3",
     .biases = Biases::kNone,
     .windows = Windows::kAll,
     .fused = true,
     .partial_rotary = true,
     .context = 4096,
     .kv_heads_required = false,
     .norm_eps = 1e-5,
     .eos = 32000},
    with_layer_map("lckv-llama", "LCKVLlamaForCausalLM"),
    with_layer_map("opt-llama", "OptLlamaForCausalLM"),
    with_layer_map("cla-llama", "ClaLlamaForCausalLM"),
    with_layer_map("group-opt-llama", "OptLlamaForCausalLM"),
};

/// "llama, mistral, ...": the given names of all families that have one.
std::string listed(std::string_view Architecture::*name) {
    std::string all;
    for (const Architecture& a : kFamilies) {
        if (!(a.*name).empty()) all += fmt::format("{}{}", all.empty() ? "" : ", ", a.*name);
    }
    return all;
}

}  // namespace

std::span<const Architecture> architectures() {
    return kFamilies;
}

const Architecture& architecture_of(std::string_view model_type, std::string_view what) {
    const auto* const it = std::ranges::find(kFamilies, model_type, &Architecture::model_type);
    require(it != std::end(kFamilies), Exit::kData, "{}: 'model_type' is '{}'; supported: {}", what, shown(model_type),
            listed(&Architecture::model_type));
    return *it;
}

const Architecture& gguf_architecture(std::string_view name, std::string_view what) {
    const auto* const it = std::ranges::find(kFamilies, name, &Architecture::gguf);
    require(it != std::end(kFamilies) && !name.empty(), Exit::kData, "{}: the architecture is '{}'; supported: {}",
            what, shown(name), listed(&Architecture::gguf));
    return *it;
}

}  // namespace trireme
