#include "tests/support/reference.h"

#include <cmath>

#include <gtest/gtest.h>

namespace trireme::test::reference {
namespace {

// Every expected number below was worked out by hand.

TEST(Reference, RoundsToTheStoredType) {
    EXPECT_EQ(rounded(1 + 0x1p-9, DType::kBF16), 1);
    EXPECT_EQ(rounded(1 + 0x1p-9, DType::kF16), 1 + 0x1p-9);
    EXPECT_EQ(rounded(1 + 0x1p-12, DType::kF16), 1);
    EXPECT_EQ(rounded(1 + 0x1p-12, DType::kF32), 1 + 0x1p-12);
}

TEST(Reference, EmbedAndGatherTakeWholeRows) {
    const Rows table(3, 2, {1, 2, 3, 4, 5, 6});

    EXPECT_EQ(embed(table, {2, 0, 2}).at, (std::vector<double>{5, 6, 1, 2, 5, 6}));
    EXPECT_EQ(gather_rows(table, {1}).at, (std::vector<double>{3, 4}));
}

TEST(Reference, RmsnormDividesByTheRootMeanSquare) {
    const Rows x(2, 2, {1, 7, 3, 4}), weight(1, 2, {2, 1});

    const Rows y = rmsnorm(x, weight, 0);  // mean squares 25 and 12.5

    EXPECT_DOUBLE_EQ(y(0, 0), 0.4);
    EXPECT_DOUBLE_EQ(y(0, 1), 1.4);
    EXPECT_DOUBLE_EQ(y(1, 0), 6 / std::sqrt(12.5));
    EXPECT_DOUBLE_EQ(rmsnorm(Rows(1, 1, {0}), Rows(1, 1, {1}), 4)(0, 0), 0);
    EXPECT_DOUBLE_EQ(rmsnorm(Rows(1, 1, {1}), Rows(1, 1, {1}), 3)(0, 0), 0.5);
}

TEST(Reference, MatmulMultipliesByTheTranspose) {
    const Rows x(2, 3, {1, 2, 3, 4, 5, 6}), w(2, 3, {1, 0, -1, 2, 1, 0});

    EXPECT_EQ(matmul(x, w).at, (std::vector<double>{-2, 4, -2, 13}));
}

TEST(Reference, RopeTurnsPairsHalfAHeadApart) {
    const Rows x(1, 4, {1, 2, 3, 4});
    const Rows quarter_turn_of_first_pair(1, 4, {0, 1, 1, 0});  // cos 0, 1; sin 1, 0

    EXPECT_EQ(rope(x, quarter_turn_of_first_pair, 4).at, (std::vector<double>{-3, 2, 1, 4}));
}

TEST(Reference, AttentionWeighsValuesBySoftmax) {
    // Two heads of one dimension on one KV head; scores q * k: head 0 sees 0 and ln 3, head 1 equal scores.
    const Rows q(1, 2, {1, 0}), keys(2, 1, {0, std::log(3.0)}), values(2, 1, {4, 8});

    const Rows out = attention(q, keys, values, {0, 0});

    EXPECT_DOUBLE_EQ(out(0, 0), 0.25 * 4 + 0.75 * 8);
    EXPECT_DOUBLE_EQ(out(0, 1), 6);
}

TEST(Reference, AttentionScalesByTheRootOfTheHeadAndPicksTheKvHead) {
    // head_dim 4, so scores are halved: 2 ln 3 / 2.
    const Rows q(1, 4, {2, 0, 0, 0});
    const Rows keys(2, 8, {9, 9, 9, 9, 0, 0, 0, 0, 9, 9, 9, 9, std::log(3.0), 0, 0, 0});
    const Rows values(2, 8, {7, 7, 7, 7, 1, 2, 3, 4, 7, 7, 7, 7, 5, 6, 7, 8});

    EXPECT_DOUBLE_EQ(attention(q, keys, values, {1})(0, 0), 0.25 * 1 + 0.75 * 5);
    EXPECT_DOUBLE_EQ(attention(q, keys, values, {1})(0, 3), 0.25 * 4 + 0.75 * 8);
}

TEST(Reference, SwigluGatesTheUpperHalf) {
    const Rows y = swiglu(Rows(1, 4, {0, std::log(3.0), 5, 2}));

    EXPECT_DOUBLE_EQ(y(0, 0), 0);
    EXPECT_DOUBLE_EQ(y(0, 1), std::log(3.0) * 0.75 * 2);
}

TEST(Reference, AddAddsElementwise) {
    EXPECT_EQ(add(Rows(1, 2, {1, 2}), Rows(1, 2, {10, 20})).at, (std::vector<double>{11, 22}));
}

}  // namespace
}  // namespace trireme::test::reference
