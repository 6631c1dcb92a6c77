#include "model/checkpoint/quantisation.h"

#include <gtest/gtest.h>

#include "tests/model/files/support.h"

namespace trireme::test {
namespace {

Quantisation quantised(const std::string& json) {
    return read_quantisation(parse_json(R"({"quantization_config": )" + json + "}", "config.json"), "config.json");
}

std::string compressed(const std::string& format, const std::string& weights, const std::string& more = "") {
    return R"({"quant_method": "compressed-tensors", "format": ")" + format + R"(", "config_groups": {"group_0": )" +
           R"({"targets": ["Linear"], "weights": )" + weights + "}}" + more + "}";
}

TEST(Quantisation, IsNoneWithoutTheKey) {
    EXPECT_EQ(read_quantisation(parse_json("{}", "c"), "c").as, PackedAs::kNone);
    EXPECT_EQ(quantised("null").as, PackedAs::kNone);
}

TEST(Quantisation, OfGptq) {
    const Quantisation one = quantised(R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": true})");
    EXPECT_EQ(one.as, PackedAs::kGptq);
    EXPECT_EQ(one.group, 128);
    EXPECT_EQ(one.zero_shift, 1);
    EXPECT_TRUE(one.reordered);
    const Quantisation two = quantised(R"({"quant_method": "gptq", "bits": 4, "group_size": -1,
                                      "checkpoint_format": "gptq_v2", "dynamic": {}})");
    EXPECT_EQ(two.group, 0);
    EXPECT_EQ(two.zero_shift, 0);
    EXPECT_FALSE(two.reordered);
}

TEST(Quantisation, OfAwq) {
    const Quantisation a = quantised(R"({"quant_method": "awq", "bits": 4, "group_size": 64, "version": "GEMM"})");
    EXPECT_EQ(a.as, PackedAs::kAwq);
    EXPECT_EQ(a.group, 64);
    EXPECT_EQ(quantised(R"({"quant_method": "awq", "w_bit": 4, "q_group_size": 128})").group, 128);
}

TEST(Quantisation, OfCompressedTensors) {
    const Quantisation a = quantised(compressed("pack-quantized", R"({"num_bits": 4, "type": "int", "symmetric": false,
                                            "strategy": "group", "group_size": 32, "actorder": "weight"})"));
    EXPECT_EQ(a.as, PackedAs::kCompressed);
    EXPECT_EQ(a.group, 32);
    EXPECT_TRUE(a.zero_points);
    const Quantisation b = quantised(compressed("pack-quantized", R"({"num_bits": 4, "strategy": "channel"})"));
    EXPECT_EQ(b.group, 0);
    EXPECT_FALSE(b.zero_points);
    const Quantisation c = quantised(compressed("float-quantized", R"({"num_bits": 8, "type": "float",
                                            "strategy": "block", "block_structure": [128, 64]})"));
    EXPECT_EQ(c.as, PackedAs::kFP8);
    EXPECT_EQ(c.block_rows, 128);
    EXPECT_EQ(c.block_cols, 64);
}

TEST(Quantisation, OfFp8) {
    EXPECT_EQ(quantised(R"({"quant_method": "fp8", "activation_scheme": "dynamic"})").as, PackedAs::kFP8);
    EXPECT_EQ(quantised(R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]})").block_cols, 128);
    EXPECT_EQ(quantised(R"({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0})").as, PackedAs::kFP8);
}

TEST(Quantisation, RefusesByName) {
    const std::string weights = R"({"num_bits": 4, "strategy": "group", "group_size": 128)";
    const struct {
        std::string config;
        std::vector<std::string> says;
    } cases[] = {
        {"{}", {"quant_method none", "supported: gptq, awq"}},
        {R"({"quant_method": ["fp8"]})", {"'quantization_config'"}},
        {R"({"quant_method": "bitsandbytes", "load_in_4bit": true})", {"\"bitsandbytes\""}},
        {R"({"quant_method": "mxfp4"})", {"\"mxfp4\"", "GGUF"}},
        {R"({"quant_method": "gptq", "bits": 8, "group_size": 128})", {"gptq", "bits is 8", "supported: 4"}},
        {R"({"quant_method": "gptq", "bits": 4})", {"'group_size' is missing"}},
        {R"({"quant_method": "gptq", "bits": 4, "group_size": 24})", {"group_size is 24", "multiples of 32"}},
        {R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "marlin"})", {"marlin"}},
        {R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"-:.*q_proj": {}}})", {"dynamic"}},
        {R"({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemv"})", {"version is gemv", "gemm"}},
        {R"({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": false})", {"zero_point is false"}},
        {R"({"quant_method": "fp8", "fmt": "e5m2"})", {"fmt is e5m2", "e4m3"}},
        {R"({"quant_method": "fp8", "weight_block_size": [128, 48]})", {"weight_block_size", "multiple of 32"}},
        {compressed("int-quantized", weights + "}"), {"format is int-quantized"}},
        {compressed("nvfp4-pack-quantized", weights + "}"), {"nvfp4-pack-quantized"}},
        {compressed("pack-quantized", weights + R"(, "actorder": "group"})"), {"act-order"}},
        {compressed("pack-quantized", R"({"num_bits": 8, "strategy": "channel"})"), {"num_bits is 8"}},
        {compressed("pack-quantized", R"({"num_bits": 4, "strategy": "tensor"})"), {"strategy is tensor"}},
        {compressed("pack-quantized", weights + "}", R"(, "sparsity_config": {"format": "sparse-24-bitmask"})"),
         {"sparse-24-bitmask"}},
        {R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"a": {}, "b": {}}})",
         {"config_groups is of 2 groups"}},
    };
    for (const auto& c : cases) expect_error([&] { quantised(c.config); }, Exit::kData, c.says);
}

}  // namespace
}  // namespace trireme::test
