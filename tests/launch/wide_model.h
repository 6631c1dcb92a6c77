#pragma once
/// A checkpoint with small weights and large KV: 16 KiB per token and layer in f16. Its weights are zeros: a greedy run
/// ends with its first token.

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/process.h"

namespace trireme::test {

class WideModel {
  public:
    static constexpr int64_t kLayers = 2, kDim = 64, kHeads = 32, kHeadDim = 128, kFfn = 32, kVocab = 64;

    WideModel() {
        const nlohmann::json config = {{"architectures", {"LlamaForCausalLM"}},
                                       {"model_type", "llama"},
                                       {"hidden_size", kDim},
                                       {"intermediate_size", kFfn},
                                       {"num_hidden_layers", kLayers},
                                       {"num_attention_heads", kHeads},
                                       {"num_key_value_heads", kHeads},
                                       {"head_dim", kHeadDim},
                                       {"vocab_size", kVocab},
                                       {"max_position_embeddings", 65536},
                                       {"rms_norm_eps", 1e-5},
                                       {"rope_theta", 1e4},
                                       {"hidden_act", "silu"},
                                       {"tie_word_embeddings", true},
                                       {"eos_token_id", 0}};  // its first greedy token
        write_file(folder_ / "config.json", config.dump());
        add("model.embed_tokens.weight", {kVocab, kDim});
        add("model.norm.weight", {kDim});
        for (int64_t l = 0; l < kLayers; ++l) {
            const std::string layer = "model.layers." + std::to_string(l) + ".";
            add(layer + "input_layernorm.weight", {kDim});
            add(layer + "post_attention_layernorm.weight", {kDim});
            for (const char* x : {"q", "k", "v"}) {
                add(layer + "self_attn." + x + "_proj.weight", {kHeads * kHeadDim, kDim});
            }
            add(layer + "self_attn.o_proj.weight", {kDim, kHeads * kHeadDim});
            add(layer + "mlp.gate_proj.weight", {kFfn, kDim});
            add(layer + "mlp.up_proj.weight", {kFfn, kDim});
            add(layer + "mlp.down_proj.weight", {kDim, kFfn});
        }
        const std::string header = header_.dump();
        const uint64_t size = header.size();
        write_file(folder_ / "model.safetensors",
                   std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + std::string(bytes_, '\0'));
    }
    const std::string& path() const { return folder_.path(); }
    /// A file of `tokens` ids, for --prompt-ids.
    std::string ids(size_t tokens) const {
        const std::string path = folder_ / (std::to_string(tokens) + ".json");
        write_file(path, nlohmann::json(std::vector<int>(tokens, 5)).dump());
        return path;
    }

  private:
    void add(const std::string& name, const std::vector<int64_t>& shape) {
        size_t bytes = 2;
        for (const int64_t d : shape) bytes *= static_cast<size_t>(d);
        header_[name] = {{"dtype", "F16"}, {"shape", shape}, {"data_offsets", {bytes_, bytes_ + bytes}}};
        bytes_ += bytes;
    }

    TempFolder folder_;
    nlohmann::ordered_json header_;
    size_t bytes_ = 0;
};

}  // namespace trireme::test
