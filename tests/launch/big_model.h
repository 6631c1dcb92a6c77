#pragma once
/// A checkpoint that takes seconds to convert, so that a signal arrives before the end.

#include <cstdint>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/support/process.h"

namespace trireme::test {

/// A checkpoint whose embedding has 2 GB of zeros, which take no room on the disk.
inline void make_big_model(const std::string& folder) {
    constexpr size_t kVocab = size_t{1} << 18, kDim = 4096;
    nlohmann::json header, config = {{"architectures", {"LlamaForCausalLM"}},
                                     {"model_type", "llama"},
                                     {"hidden_size", kDim},
                                     {"intermediate_size", 32},
                                     {"num_hidden_layers", 1},
                                     {"num_attention_heads", 1},
                                     {"num_key_value_heads", 1},
                                     {"head_dim", 8},
                                     {"vocab_size", kVocab},
                                     {"max_position_embeddings", 64},
                                     {"rms_norm_eps", 1e-5},
                                     {"tie_word_embeddings", true}};
    size_t bytes = 0;
    const auto add = [&](const std::string& name, const std::vector<size_t>& shape) {
        size_t size = 2;
        for (const size_t d : shape) size *= d;
        header[name] = {{"dtype", "F16"}, {"shape", shape}, {"data_offsets", {bytes, bytes + size}}};
        bytes += size;
    };
    add("model.embed_tokens.weight", {kVocab, kDim});
    add("model.norm.weight", {kDim});
    add("model.layers.0.input_layernorm.weight", {kDim});
    add("model.layers.0.post_attention_layernorm.weight", {kDim});
    for (const char* x : {"q", "k", "v"}) {
        add("model.layers.0.self_attn." + std::string(x) + "_proj.weight", {8, kDim});
    }
    add("model.layers.0.self_attn.o_proj.weight", {kDim, 8});
    for (const char* x : {"gate", "up"}) add("model.layers.0.mlp." + std::string(x) + "_proj.weight", {32, kDim});
    add("model.layers.0.mlp.down_proj.weight", {kDim, 32});
    const std::string said = header.dump();
    const uint64_t size = said.size();
    std::filesystem::create_directory(folder);
    write_file(folder + "/config.json", config.dump());
    write_file(folder + "/model.safetensors", std::string(reinterpret_cast<const char*>(&size), sizeof size) + said);
    std::filesystem::resize_file(folder + "/model.safetensors", sizeof size + said.size() + bytes);
}

}  // namespace trireme::test
