#include "kernels/attention_cost.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

KvLayout layout(int64_t kv_heads, int64_t head_dim, DType k, DType v) {
    return {.kv_heads = kv_heads, .head_dim = head_dim, .k_type = k, .v_type = v};
}

TEST(AttentionCost, OnCpusEveryRowHasItsProducts) {
    const KvLayout kv = layout(2, 64, DType::kF16, DType::kF16);
    EXPECT_EQ(attention_products("cpu", kv, 6, 1), 2 * 6 * 64);
    EXPECT_EQ(attention_products("cpu", kv, 6, 17), 17 * 2 * 6 * 64);
}

TEST(AttentionCost, OnTensorCoresVectorsFillTilesOf16) {
    const KvLayout mha = layout(32, 128, DType::kF16, DType::kF16);
    const double one = 2.0 * 32 * 16 * 2 * 128;  // two products of f16 for one of f32's precision
    for (const int64_t rows : {1, 8, 16}) EXPECT_EQ(attention_products("cuda", mha, 32, rows), one) << rows;
    EXPECT_EQ(attention_products("cuda", mha, 32, 17), 2 * one);
    EXPECT_EQ(attention_products("cuda", mha, 32, 64), 4 * one);

    const KvLayout grouped = layout(8, 128, DType::kF16, DType::kF16);
    EXPECT_EQ(attention_products("cuda", grouped, 32, 1), one / 4);
    EXPECT_EQ(attention_products("cuda", grouped, 32, 17), 5 * one / 4);  // 68 vectors
    EXPECT_EQ(attention_products("cuda", layout(8, 128, DType::kBF16, DType::kBF16), 32, 17), 5 * one / 4 * 1.5);
    EXPECT_EQ(attention_products("cuda", layout(8, 80, DType::kF16, DType::kF16), 32, 1), one / 4 * 96 / 128);
}

TEST(AttentionCost, OtherTypesRunOnCudaCores) {
    for (const auto& [k, v] :
         {std::pair(DType::kF32, DType::kF32), {DType::kQ8_0, DType::kQ8_0}, {DType::kF16, DType::kBF16}}) {
        const KvLayout kv = layout(8, 128, k, v);
        EXPECT_EQ(attention_products("cuda", kv, 32, 17), 11 * attention_products("cpu", kv, 32, 17));
    }
}

}  // namespace
}  // namespace trireme
