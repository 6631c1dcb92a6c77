// The layer sharing that checkpoints' configs declare.

#include <gtest/gtest.h>

#include "model/checkpoint/config.h"
#include "model/checkpoint/layer_sharing.h"
#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

LlamaConfig parse(const std::string& type, const std::string& keys, int64_t layers = 6) {
    return parse_config(parse_json(fmt::format(R"({{"model_type": "{}", "num_hidden_layers": {}, "hidden_size": 64,
        "num_attention_heads": 4, "intermediate_size": 24, "vocab_size": 12, {}}})",
                                               type, layers, keys),
                                   "config.json"),
                        "config.json");
}
void expect_refused(const std::string& type, const std::string& keys, const std::vector<std::string>& parts) {
    expect_error([&] { parse(type, keys); }, Exit::kData, parts);
}

TEST(SharingConfig, ReadsLckv) {
    const LlamaConfig c = parse("lckv-llama", R"("layer_types": "0_4_4_4_4_5", "forward_passes": 5,
        "backward_passes": 3, "force_nodiag": true, "sliding_window": 16)");
    EXPECT_EQ(c.layer_map.text(), "0_4_4_4_4_5");
    EXPECT_EQ(c.passes, 8);
    EXPECT_TRUE(c.no_diagonal);
    EXPECT_TRUE(c.strict(LayerIndex(5)));

    const LlamaConfig plain = parse("lckv-llama", R"("sliding_window": 3)");  // no layer uses it
    EXPECT_EQ(plain.layer_map, LayerMap::identity(6));
    EXPECT_EQ(plain.passes, 9);
    EXPECT_FALSE(plain.no_diagonal);
    EXPECT_FALSE(plain.strict(LayerIndex(5)));
    EXPECT_EQ(parse("lckv-llama", R"("layer_types": "0s_1_0s_3_3_3")").sliding_window, 4096);
}

// The table of the reference, lckv 1.3.
TEST(SharingConfig, ReadsTheOlderNotations) {
    const auto map = [](const char* type, const std::string& types, const std::string& more = R"("eos_token_id": 2)") {
        return parse(type, fmt::format(R"("layer_types": "{}", {})", types, more)).layer_map.text();
    };
    EXPECT_EQ(map("opt-llama", "0_1_1_1_2_0", R"("target_layer": -2)"), "0_4_4_4_4_5");
    EXPECT_EQ(map("opt-llama", "1_1_1_1_1_2"), "5_5_5_5_5_5");
    EXPECT_EQ(map("opt-llama", "0_1_2_1_0_0", R"("target_layer": 2)"), "0_2_2_2_4_5");
    EXPECT_EQ(map("opt-llama", "0_0_0_0_0_0"), "0_1_2_3_4_5");
    EXPECT_EQ(map("cla-llama", "2_1_2_1_2_1"), "0_0_2_2_4_4");
    EXPECT_EQ(map("cla-llama", "0_1_1_0_1_1"), "0_0_0_3_3_3");
    EXPECT_EQ(map("group-opt-llama", "0_1_1_1_2_0"), "0_1_1_1_2_0");
    EXPECT_EQ(map("lckv-llama", "0_1_1_1_2_0"), "0_1_1_1_2_0");

    const LlamaConfig old = parse("opt-llama", R"("layer_types": "0_1_1_1_2_0", "target_layer": -2, "num_encoders": 6,
        "num_trained_encoders": 1)");
    EXPECT_EQ(old.passes, 7);
    EXPECT_TRUE(old.no_diagonal);
    EXPECT_FALSE(parse("cla-llama", R"("layer_types": "2_1_2_1_2_1")").no_diagonal);
    EXPECT_TRUE(parse("group-opt-llama", R"("layer_types": "0_1_2_3_4_5")").no_diagonal);
    EXPECT_EQ(parse("opt-llama", R"("eos_token_id": 2)").layer_map, LayerMap::identity(6));
}

TEST(SharingConfig, RefusesWhatIsNoMap) {
    expect_refused("lckv-llama", R"("layer_types": "0_1t_2_3_4_5")", {"'0_1t_2_3_4_5'"});
    expect_refused("lckv-llama", R"("layer_types": "0_1_2")", {"3 layers, the model has 6"});
    expect_refused("lckv-llama", R"("layer_types": "0_1_2_3_4_6")", {" 0 to 5"});
    expect_refused("lckv-llama", R"("layer_types": "0s_0_2_3_4_5")", {"layer 1 ", "layer 0"});
    expect_refused("lckv-llama", R"("layer_types": "0s_0s_2_3_4_5", "sliding_window": 0)", {"'sliding_window' is 0"});
    expect_refused("lckv-llama", R"("forward_passes": 0, "backward_passes": 0)", {"'forward_passes' is 0"});
    expect_refused("opt-llama", R"("layer_types": "0_3_1_1_2_0")", {"want types 0, 1 or 2"});
    expect_refused("opt-llama", R"("layer_types": "0_1_1_1_2_0")", {"layer 4 is of type 2"});
    expect_refused("opt-llama", R"("layer_types": "0_1_1_1_0_1")", {"type 1: ", "keys and values"});
    expect_refused("opt-llama", R"("layer_types": "0_1_1_1_2_0", "target_layer": 9)", {"'target_layer' is 9"});
    expect_refused("opt-llama", R"("layer_types": "0_1_1_1_2_")", {"want types 0, 1 or 2"});
    expect_refused("cla-llama", R"("layer_types": "1_0_0_0_0_0")", {"layer 0 is of type 1"});
    expect_refused("cla-llama", R"("layer_types": "0_1_0")", {"3 layers; the model has 6"});
}

TEST(SharingConfig, AnotherMapHasNinePassesAndTheDiagonal) {
    LlamaConfig c = parse("lckv-llama", R"("layer_types": "0_4_4_4_4_5", "forward_passes": 1, "force_nodiag": true)");
    set_layer_map(c, "0_4_4_4_4_5", "map");  // the model's own map
    EXPECT_EQ(c.passes, 3);
    EXPECT_TRUE(c.no_diagonal);
    set_layer_map(c, "0_0_2_2_4_4", "map");
    EXPECT_EQ(c.passes, 9);
    EXPECT_FALSE(c.no_diagonal);
    expect_error([&] { set_layer_map(c, "0_0", "map"); }, Exit::kData, {"2 layers, the model has 6"});
}

}  // namespace
}  // namespace trireme::test
