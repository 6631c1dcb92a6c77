// config.json of each family: what its keys mean, what a missing key means, and what is refused.

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "model/checkpoint/config.h"
#include "model/checkpoint/tensor_names.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

Json of_family(const char* type) {
    Json json = parse_json(small_config(), "config.json");
    json["model_type"] = type;
    return json;
}
LlamaConfig parse(const Json& json) {
    return parse_config(json, "config.json");
}
void expect_refused(const Json& json, const std::vector<std::string>& parts) {
    expect_error([&] { parse(json); }, Exit::kData, parts);
}
/// The layers that see a window: "0s_1".
std::string windows(const LlamaConfig& c) {
    return c.layer_map.text();
}

TEST(Families, OnlyQwen2AlwaysHasBiases) {
    for (const Architecture& family : architectures()) {
        Json json = of_family(std::string(family.model_type).c_str());
        json["sliding_window"] = nullptr;
        const LlamaConfig plain = parse(json);
        EXPECT_EQ(plain.qkv_bias, family.model_type == "qwen2") << family.model_type;
        EXPECT_FALSE(plain.o_bias) << family.model_type;
        json["attention_bias"] = true;
        if (family.biases == Biases::kIfSet) {
            EXPECT_TRUE(parse(json).qkv_bias && parse(json).o_bias) << family.model_type;
        } else if (family.biases == Biases::kQkv) {
            EXPECT_TRUE(parse(json).qkv_bias && !parse(json).o_bias) << "the key has no effect";
        } else {
            expect_refused(json, {"'attention_bias' is true"});
        }
    }
}

TEST(Families, MissingKeysHaveTheDefaultsOfTheirClass) {
    Json qwen3 = of_family("qwen3");
    for (const char* key : {"max_position_embeddings", "rms_norm_eps", "head_dim"}) qwen3.erase(key);
    EXPECT_EQ(parse(qwen3).head_dim, 128);
    EXPECT_EQ(parse(qwen3).context, 32768);
    EXPECT_EQ(parse(qwen3).norm_eps, 1e-6);
    EXPECT_TRUE(parse(qwen3).eos.empty());

    Json phi3 = of_family("phi3");
    for (const char* key : {"max_position_embeddings", "rms_norm_eps", "num_key_value_heads"}) phi3.erase(key);
    EXPECT_EQ(parse(phi3).n_kv_heads, parse(phi3).n_heads);
    EXPECT_EQ(parse(phi3).context, 4096);
    EXPECT_EQ(parse(phi3).norm_eps, 1e-5);
    phi3["vocab_size"] = 32064;
    EXPECT_EQ(parse(phi3).eos, (std::vector<int32_t>{32000}));
    EXPECT_EQ(windows(parse(phi3)), "0_1");  // no window

    for (const char* type : {"mistral", "qwen2", "qwen3"}) {
        Json json = of_family(type);
        json.erase("num_key_value_heads");
        expect_refused(json, {"'num_key_value_heads' is missing"});
    }
}

TEST(Families, MistralHasAWindowUnlessItIsNull) {
    Json json = of_family("mistral");
    json["max_position_embeddings"] = 32768;
    EXPECT_EQ(windows(parse(json)), "0s_1s");  // a missing key means 4096
    EXPECT_EQ(parse(json).sliding_window, 4096);
    json["layer_types"] = {"full_attention", "full_attention"};  // its class ignores them
    EXPECT_EQ(windows(parse(json)), "0s_1s");
    json["sliding_window"] = 16;
    EXPECT_EQ(parse(json).sliding_window, 16);
    json["sliding_window"] = 32768;  // as long as the context: no window
    EXPECT_EQ(windows(parse(json)), "0_1");
    json["sliding_window"] = nullptr;
    EXPECT_EQ(windows(parse(json)), "0_1");
    json["sliding_window"] = 0;
    EXPECT_EQ(windows(parse(json)), "0_1");
    json["sliding_window"] = -5;
    expect_refused(json, {"'sliding_window' is -5"});
}

TEST(Families, QwensWindowCountsOnlyIfItIsUsed) {
    for (const char* type : {"qwen2", "qwen3"}) {
        Json json = of_family(type);
        json["sliding_window"] = 16;
        json["max_window_layers"] = 1;
        EXPECT_EQ(windows(parse(json)), "0_1");
        json["use_sliding_window"] = false;
        EXPECT_EQ(windows(parse(json)), "0_1");
        json["use_sliding_window"] = true;
        EXPECT_EQ(windows(parse(json)), "0_1s");  // the layers from max_window_layers on
        json.erase("max_window_layers");
        EXPECT_EQ(windows(parse(json)), "0_1");  // a missing key means 28
        json["layer_types"] = {"sliding_attention", "full_attention"};
        EXPECT_EQ(windows(parse(json)), "0s_1");
        EXPECT_EQ(parse(json).sliding_window, 16);
        json["layer_types"] = {"sliding_attention"};
        expect_refused(json, {"'layer_types'", "2 types"});
        json["layer_types"] = {"sliding_attention", "chunked_attention"};
        expect_refused(json, {"chunked_attention", "full_attention"});
    }
}

TEST(Families, PhisPartOfAHeadRotates) {
    Json json = of_family("phi3");
    json["head_dim"] = 16;
    json["partial_rotary_factor"] = 0.75;
    EXPECT_EQ(parse(json).rope.rotary_dim, 12);
    json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 7.0}, {"partial_rotary_factor", 0.5}};
    EXPECT_EQ(parse(json).rope.rotary_dim, 8);  // either spelling
    json.erase("rope_parameters");
    for (const double bad : {0.0, -1.0, 1.5, 0.1}) {
        json["partial_rotary_factor"] = bad;
        expect_refused(json, {"'partial_rotary_factor'"});
    }
    Json llama = of_family("llama");
    llama["partial_rotary_factor"] = 0.5;
    expect_refused(llama, {"'partial_rotary_factor' is 0.5"});
}

TEST(Families, LongropeFollowsTheLengths) {
    Json json = of_family("phi3");
    json["head_dim"] = 8;
    json["max_position_embeddings"] = 131072;
    json["original_max_position_embeddings"] = 4096;
    json["rope_scaling"] = {{"type", "longrope"}, {"short_factor", {1, 2, 3, 4}}, {"long_factor", {5, 6, 7, 8.5}}};
    RopeConfig r = parse(json).rope;
    EXPECT_EQ(r.scaling, RopeScaling::kLongrope);
    EXPECT_DOUBLE_EQ(r.attention_factor, std::sqrt(1 + std::log(32.0) / std::log(4096.0)));
    EXPECT_EQ(parse(json).context, 131072);
    EXPECT_EQ(r.factors, (std::vector<float>{5, 6, 7, 8.5F}));
    r.choose_factors(4096);
    EXPECT_EQ(r.factors, (std::vector<float>{1, 2, 3, 4}));
    r.choose_factors(4097);
    EXPECT_EQ(r.factors, (std::vector<float>{5, 6, 7, 8.5F}));

    for (const char* name : {"su", "yarn"}) {  // old names, in phi3 only
        json["rope_scaling"]["type"] = name;
        EXPECT_EQ(parse(json).rope.scaling, RopeScaling::kLongrope) << name;
    }
    json["rope_scaling"]["original_max_position_embeddings"] = 64;  // the key outside wins
    EXPECT_EQ(parse(json).rope.original_context, 4096);
    json.erase("original_max_position_embeddings");  // its class has a default
    EXPECT_EQ(parse(json).rope.original_context, 4096);
    json["rope_scaling"]["factor"] = 4;
    EXPECT_DOUBLE_EQ(parse(json).rope.attention_factor, std::sqrt(1 + std::log(4.0) / std::log(4096.0)));
    json["rope_scaling"]["attention_factor"] = 1.25;
    EXPECT_EQ(parse(json).rope.attention_factor, 1.25);
    json["rope_scaling"]["long_factor"] = {1, 2};
    expect_refused(json, {"'long_factor'", "4 numbers"});
    json["rope_scaling"].erase("long_factor");
    expect_refused(json, {"'long_factor' is missing"});
    json["rope_scaling"]["long_factor"] = {1, 2, "x", 4};
    expect_refused(json, {"'long_factor'"});
    json["rope_scaling"]["long_factor"] = {1, 2, 0, 4};
    expect_refused(json, {"long_factor is 0"});
}

TEST(Families, TheirTensorsHaveTheNamesOfTheirFiles) {
    const auto names = [](const LlamaConfig& c) {
        std::vector<std::string> all;
        for (const ExpectedTensor& t : expected_tensors(c)) {
            const FileTensor there = in_gguf(c, t);
            all.push_back(fmt::format("{} {}+{}", there.name, there.shape, there.row0));
        }
        return all;
    };
    Json phi3 = of_family("phi3");  // 2 heads and 1 KV head of 8, dim 16, ffn 24
    const auto all = names(parse(phi3));
    for (const char* want :
         {"blk.0.attn_qkv.weight [32, 16]+0", "blk.0.attn_qkv.weight [32, 16]+16", "blk.0.attn_qkv.weight [32, 16]+24",
          "blk.0.ffn_up.weight [48, 16]+0", "blk.0.ffn_up.weight [48, 16]+24", "blk.1.ffn_down.weight [16, 24]+0"}) {
        EXPECT_NE(std::ranges::find(all, want), all.end()) << want;
    }
    Json qwen3 = of_family("qwen3");
    qwen3["head_dim"] = 8;
    qwen3["attention_bias"] = true;
    const auto others = names(parse(qwen3));
    for (const char* want : {"blk.0.attn_q_norm.weight [8]+0", "blk.0.attn_k.bias [8]+0",
                             "blk.1.attn_output.bias [16]+0", "blk.0.ffn_up.weight [24, 16]+0"}) {
        EXPECT_NE(std::ranges::find(others, want), others.end()) << want;
    }
}

}  // namespace
}  // namespace trireme::test
