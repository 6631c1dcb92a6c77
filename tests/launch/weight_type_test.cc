#include "launch/run/weight_type.h"

#include <gtest/gtest.h>

#include "kernels/cpu/bf16_dots.h"
#include "kernels/cpu/byte_dots.h"

namespace trireme::test {
namespace {

std::unique_ptr<WeightSource> open(const std::string& name) {
    return open_model(std::string(TRIREME_TEST_DATA) + "/" + name);
}

TEST(WeightType, IsTheCheckpointsForPlainTypes) {
    EXPECT_EQ(choose_weight_type(*open("gguf/f32.gguf"), {}, {}, "cpu").type(), DType::kF32);
    EXPECT_EQ(choose_weight_type(*open("gguf/bf16.gguf"), {}, {}, "cpu").type(), DType::kBF16);
    EXPECT_EQ(choose_weight_type(*open("models/kjv-target"), {}, {}, "cpu").type(), DType::kF16);
}

TEST(WeightType, OfQuantisedTypesAreTheirBlocks) {
    const auto source = open("gguf/q4_1.gguf");
    const std::string embedding = "model.embed_tokens.weight";
    for (const auto& [most, pairs] : {std::pair{ByteDots::kNone, false},
                                      {ByteDots::kNone, true},
                                      {ByteDots::kAvx2, true},
                                      {ByteDots::kVnni, true}}) {
        limit_byte_dots(most);
        allow_bf16_dots(pairs);  // the last time, the CPU decides both
        const WeightType chosen = choose_weight_type(*source, {}, {}, "cpu");
        const bool bytes = byte_dots() != ByteDots::kNone;
        const std::string_view as = bytes ? "q16" : bf16_dots() ? "bf16" : "f32";
        EXPECT_EQ(name_of(chosen.format.activations()), as);
        EXPECT_EQ(chosen.format.type_of(embedding), StoredType::kQ4_1);
        EXPECT_EQ(chosen.format.interleaved(StoredType::kQ4_1), bytes);
        EXPECT_EQ(chosen.name, fmt::format("Q4_1 blocks ({} products)", as));
    }
    for (const ActivationType as : kActivationTypes) {
        if (!multiplies("cpu", as)) continue;
        EXPECT_EQ(choose_weight_type(*source, {}, as, "cpu").format.activations(), as);
    }
    const WeightType gpu = choose_weight_type(*source, {}, {}, "cuda");
    EXPECT_EQ(gpu.type(), DType::kF16);
    EXPECT_EQ(gpu.format.type_of(embedding), StoredType::kQ4_1);
    EXPECT_EQ(gpu.name, "Q4_1 blocks (f16 products)");
    for (const auto& [backend, type] :
         {std::pair{"cpu", ActivationType::kF16}, {"cuda", ActivationType::kBF16}, {"cuda", ActivationType::kQ16}}) {
        try {
            choose_weight_type(*source, {}, type, backend);
            FAIL() << backend << " multiplies " << name_of(type);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kUsage);
        }
    }
}

TEST(WeightType, OfF16MatricesIsF32WhereAGpuWouldRoundExactActivations) {
    const auto source = open("gguf/q8_0_mixed.gguf");
    const std::string v = "model.layers.0.self_attn.v_proj.weight";
    EXPECT_EQ(choose_weight_type(*source, {}, ActivationType::kF32, "cpu").format.type_of(v), StoredType::kF16);
    EXPECT_EQ(choose_weight_type(*source, {}, ActivationType::kF32, "cuda").format.type_of(v), StoredType::kF32);
    EXPECT_EQ(choose_weight_type(*source, {}, {}, "cuda").format.type_of(v), StoredType::kF16);
}

// FP8 numbers are no whole numbers, so they have products of bf16 pairs.
TEST(WeightType, OfFp8IsThatOfPairs) {
    const auto source = open("packed/fp8_block");
    const std::string_view as = bf16_dots() ? "bf16" : "f32";
    EXPECT_EQ(choose_weight_type(*source, {}, {}, "cpu").name, fmt::format("FP8 blocks ({} products)", as));
    EXPECT_EQ(choose_weight_type(*open("packed/awq"), {}, {}, "cuda").name, "INT4 blocks (f16 products)");
}

TEST(WeightType, IsTheRequestedOne) {
    const WeightType f32 = choose_weight_type(*open("gguf/q4_1.gguf"), DType::kF32, {}, "cpu");

    EXPECT_EQ(f32.type(), DType::kF32);
    EXPECT_FALSE(f32.format.has_blocks());
    EXPECT_EQ(f32.reason, "--dtype f32, the checkpoint is Q4_1");
}

}  // namespace
}  // namespace trireme::test
