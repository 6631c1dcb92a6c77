#include "runtime/tensor.h"

#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

// The space is in the type: neither converts to the other.
static_assert(!std::is_convertible_v<HostTensor, Tensor> && !std::is_convertible_v<Tensor, HostTensor>);

TEST(Tensor, SlicesRowsAndColumns) {
    std::vector<float> data(24);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
    const HostTensor t(data.data(), DType::kF32, {4, 6});

    const Matrix<float> m = t.slice_rows(1, 2).slice_cols(2, 3).as<float>();

    EXPECT_EQ(m.rows, 2);
    EXPECT_EQ(m.cols, 3);
    EXPECT_EQ(m.stride, 6);
    EXPECT_EQ(m(0, 0), 8.0f);
    EXPECT_EQ(m(1, 2), 16.0f);
    EXPECT_FALSE(t.slice_cols(0, 3).contiguous());
    EXPECT_TRUE(t.slice_cols(0, 3).first_rows(1).contiguous());
}

TEST(Tensor, RefusesWhatDoesNotExist) {
    std::vector<float> data(24);
    const HostTensor t(data.data(), DType::kF32, {4, 6});

    EXPECT_THROW(t.slice_rows(3, 2), Error);
    EXPECT_THROW(t.slice_cols(-1, 2), Error);
    EXPECT_THROW(t.as<int32_t>(), Error);
    EXPECT_THROW(HostTensor(data.data(), DType::kF32, {2, 6}, 5), Error);
    EXPECT_THROW(Shape({-1}), Error);
}

TEST(Shape, ReadsAsAList) {
    EXPECT_EQ(fmt::format("{} {} {}", Shape{2, 30}, Shape{7}, Shape{}), "[2, 30] [7] []");
}

}  // namespace
}  // namespace trireme::test
