#include "model/checkpoint/random_weights.h"

#include <cmath>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

LlamaConfig config() {
    return open_config(std::string(TRIREME_TEST_DATA) + "/models/kjv-target");
}

std::vector<float> read(const WeightSource& source, const std::string& name, int64_t row, int64_t col, int64_t rows,
                        int64_t cols) {
    std::vector<float> values(static_cast<size_t>(rows * cols));
    source.read(name, row, col, HostTensor(values.data(), DType::kF32, {rows, cols}));
    return values;
}

TEST(RandomWeights, AreNormalWithTransformersDeviation) {
    const auto source = random_weights(config(), 5);
    for (const TensorInfo& t : source->tensors()) {
        if (t.shape.rank() == 1) continue;
        const std::vector<float> all = read(*source, t.name, 0, 0, t.shape[0], t.shape[1]);
        const auto n = static_cast<double>(all.size());
        double sum = 0, squares = 0, within = 0;
        for (const float x : all) {
            sum += static_cast<double>(x);
            squares += static_cast<double>(x) * static_cast<double>(x);
            within += std::abs(x) < 0.02F ? 1 : 0;
        }
        // Five standard errors of the mean, of the variance, and of the share within one deviation (0.6827).
        EXPECT_LT(std::abs(sum / n), 5 * 0.02 / std::sqrt(n)) << t.name;
        EXPECT_LT(std::abs(squares / n / 4e-4 - 1), 5 * std::sqrt(2 / n)) << t.name;
        EXPECT_LT(std::abs(within / n - 0.6827), 5 * std::sqrt(0.6827 * 0.3173 / n)) << t.name;
    }
}

TEST(RandomWeights, DependOnNothingButSeedTensorAndPlace) {
    const auto source = random_weights(config(), 5), other = random_weights(config(), 6);
    const std::string q = "model.layers.1.self_attn.q_proj.weight", o = "model.layers.1.self_attn.o_proj.weight";
    const std::vector<float> all = read(*source, q, 0, 0, 20, 20), part = read(*source, q, 7, 3, 4, 9);
    for (size_t r = 0; r < 4; ++r) {
        for (size_t c = 0; c < 9; ++c) EXPECT_EQ(part[r * 9 + c], all[(r + 7) * 20 + c + 3]) << r << " " << c;
    }
    EXPECT_NE(read(*other, q, 0, 0, 20, 20), all);
    EXPECT_NE(read(*source, o, 0, 0, 20, 20), all);
    std::vector<float> norm(4);
    source->read("model.norm.weight", 0, 0, HostTensor(norm.data(), DType::kF32, {4}));
    EXPECT_EQ(norm, std::vector<float>(4, 1.0F));
}

}  // namespace
}  // namespace trireme::test
