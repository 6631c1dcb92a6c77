#include "launch/run/weight_type.h"

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

std::unique_ptr<WeightSource> open(const std::string& name) {
    return open_model(std::string(TRIREME_TEST_DATA) + "/" + name);
}

TEST(WeightType, IsTheCheckpointsForPlainTypes) {
    EXPECT_EQ(choose_weight_type(*open("gguf/f32.gguf"), {}).type, DType::kF32);
    EXPECT_EQ(choose_weight_type(*open("gguf/bf16.gguf"), {}).type, DType::kBF16);
    EXPECT_EQ(choose_weight_type(*open("models/kjv-target"), {}).type, DType::kF16);
}

// Of the two types of 16 bits the one with more of them behind the point, on every CPU: no kernel multiplies bf16.
TEST(WeightType, IsF16ForQuantisedTypes) {
    const WeightType f16 = choose_weight_type(*open("gguf/q4_1.gguf"), {});

    EXPECT_EQ(f16.type, DType::kF16);
    EXPECT_EQ(f16.reason, "the checkpoint is Q4_1");
}

TEST(WeightType, IsWhatWasAskedFor) {
    const WeightType f32 = choose_weight_type(*open("gguf/q4_1.gguf"), DType::kF32);

    EXPECT_EQ(f32.type, DType::kF32);
    EXPECT_EQ(f32.reason, "--dtype f32, the checkpoint is Q4_1");
}

}  // namespace
}  // namespace trireme::test
