#include "launch/commands/expected.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::test {
namespace {

using testing::HasSubstr;

TEST(Expected, FindsGpusByTheirNames) {
    EXPECT_EQ(expected(Measure::kH2d, "cuda:0: NVIDIA GeForce RTX 4090", 2), 25);
    EXPECT_EQ(expected(Measure::kDeviceCopy, "cuda:0: NVIDIA H200", 1), 0.9 * 4800);
    EXPECT_EQ(expected(Measure::kDeviceCopy, "cuda:0: NVIDIA H100 PCIe", 1), 0.9 * 2039);
    EXPECT_EQ(expected(Measure::kH2d, "cuda:0: NVIDIA GH200 480GB", 1), 350);
    EXPECT_EQ(expected(Measure::kH2d, "cpu: AMD EPYC", 1), std::nullopt);
}

TEST(Expected, NamesTheFirstRemedyWhereAMeasureFallsShort) {
    const std::string card = "cuda:0: NVIDIA GeForce RTX 4090";
    const std::vector<std::string> good = doctor_lines({{Measure::kH2d, 24}, {Measure::kReduceLatency, 60}}, card, 2);
    ASSERT_EQ(good.size(), 2u);
    EXPECT_THAT(good[0], HasSubstr("24.0 GB/s"));
    EXPECT_THAT(good[0], HasSubstr("expected 25.0"));

    const std::vector<std::string> bad = doctor_lines({{Measure::kH2d, 12}, {Measure::kReduceLatency, 200}}, card, 2);
    ASSERT_EQ(bad.size(), 4u);
    EXPECT_THAT(bad[1], HasSubstr("lanes"));
    EXPECT_THAT(bad[3], HasSubstr("NCCL_P2P_DISABLE"));
    EXPECT_EQ(doctor_lines({{Measure::kH2d, 1}}, "cpu: who knows", 1).size(), 1u);
}

}  // namespace
}  // namespace trireme::test
