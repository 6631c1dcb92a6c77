#include "launch/run/weight_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::test {
namespace {

std::unique_ptr<WeightSource> open(const std::string& name) {
    return open_model(std::string(TRIREME_TEST_DATA) + "/" + name);
}

TEST(WeightType, IsTheCheckpointsForPlainTypes) {
    for (const bool bf16 : {false, true}) {
        EXPECT_EQ(choose_weight_type(*open("gguf/f32.gguf"), {}, bf16).type, DType::kF32);
        EXPECT_EQ(choose_weight_type(*open("gguf/bf16.gguf"), {}, bf16).type, DType::kBF16);
        EXPECT_EQ(choose_weight_type(*open("models/kjv-target"), {}, bf16).type, DType::kF16);
    }
}

TEST(WeightType, HasSixteenBitsForQuantisedTypesAndSaysWhy) {
    const WeightType f16 = choose_weight_type(*open("gguf/q4_1.gguf"), {}, /*bf16_dot_products=*/false);
    const WeightType bf16 = choose_weight_type(*open("gguf/q4_1.gguf"), {}, /*bf16_dot_products=*/true);

    EXPECT_EQ(f16.type, DType::kF16);
    EXPECT_EQ(f16.reason, "the checkpoint is Q4_1");
    EXPECT_EQ(bf16.type, DType::kBF16);
    EXPECT_THAT(bf16.reason, testing::HasSubstr("bf16 dot products"));
}

TEST(WeightType, IsWhatWasAskedFor) {
    const WeightType f32 = choose_weight_type(*open("gguf/q4_1.gguf"), DType::kF32, true);

    EXPECT_EQ(f32.type, DType::kF32);
    EXPECT_EQ(f32.reason, "--dtype f32, the checkpoint is Q4_1");
}

}  // namespace
}  // namespace trireme::test
