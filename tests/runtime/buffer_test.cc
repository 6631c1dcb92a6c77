#include "runtime/buffer.h"

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "runtime/cpu/device.h"

namespace trireme::test {
namespace {

TEST(Buffer, IsZeroedCountedAndGivenBack) {
    CpuDevice device(1);
    {
        Buffer<Space::kDevice> a(device, 10000);
        EXPECT_GE(device.used(Space::kDevice), 10000u);
        EXPECT_EQ(device.used(Space::kHost), 0u);
        for (int i = 0; i < 10000; ++i) ASSERT_EQ(static_cast<char*>(a.data())[i], 0);

        Buffer<Space::kDevice> b = std::move(a);
        EXPECT_EQ(a.data(), nullptr);
        EXPECT_NE(b.data(), nullptr);
    }
    EXPECT_EQ(device.used(Space::kDevice), 0u);
    EXPECT_GE(device.peak(Space::kDevice), 10000u);
}

TEST(Buffer, RefusesMoreThanThereIs) {
    CpuDevice device(1);
    try {
        Buffer<Space::kDevice> b(device, size_t{1} << 50);
        FAIL() << "a petabyte was granted";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kOs);
    }
    EXPECT_EQ(device.used(Space::kDevice), 0u);
}

TEST(CpuDevice, RanksOfOneNodeDivideItsMemory) {
    constexpr int kRanks = 1000;  // so that a share is far below what is available at any moment
    CpuDevice device(1, kRanks);
    const size_t share = device.memory_free();
    EXPECT_LE(share, device.memory_total() / kRanks);
    {
        const Buffer<Space::kDevice> a(device, 40960);
        const Buffer<Space::kHost> b(device, 8192);
        EXPECT_EQ(device.memory_free(), share - 40960 - 8192) << "what was allocated counts before it is touched";
        try {
            const Buffer<Space::kDevice> c(device, share - 40960);
            FAIL() << "more than a share was granted";
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kOs);
            EXPECT_NE(std::string(e.what()).find("each of 1000 ranks"), std::string::npos) << e.what();
        }
    }
    EXPECT_EQ(device.memory_free(), share);
}

TEST(Arena, HandsOutAlignedPiecesUntilItIsFull) {
    CpuDevice device(1);
    using A = Arena<Space::kDevice>;
    A arena(device, A::bytes_of(DType::kF32, {3, 5}) + A::bytes_of(DType::kF16, {7}));

    const Tensor x = arena.take(DType::kF32, {3, 5});
    const Tensor y = arena.take(DType::kF16, {7});

    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data()) % A::kAlign, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(y.data()) % A::kAlign, 0u);
    EXPECT_NE(x.data(), y.data());
    EXPECT_THROW(arena.take(DType::kU8, {1}), Error);
}

}  // namespace
}  // namespace trireme::test
