// Messages if the CUDA module is installed, but the driver is not what it requires.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

struct Driver {
    const char* name;
    Words environment;
    const char* said;
};

void PrintTo(const Driver& driver, std::ostream* out) {
    *out << driver.name;
}

class StubDriver : public testing::TestWithParam<Driver> {};

TEST_P(StubDriver, IsNamedInOneLine) {
    Words environment = GetParam().environment;
    environment.push_back(std::string("LD_LIBRARY_PATH=") + TRIREME_STUB_DRIVER);
    const ProcessResult r = trireme_process({"generate", "-m", model(), "-p", "x", "-n", "1", "--device", "cuda"},
                                            {.environment = environment});
    EXPECT_EQ(r.status, 69);
    EXPECT_EQ(r.out, "");
    ASSERT_EQ(error_lines(r).size(), 1u) << r.err;
    EXPECT_THAT(error_lines(r)[0], HasSubstr(GetParam().said));

    const ProcessResult on_cpu =
        trireme_process({"generate", "-m", model(), "-p", "x", "-n", "1"}, {.environment = environment});
    EXPECT_EQ(on_cpu.status, 0) << on_cpu.err;
    EXPECT_THAT(on_cpu.err, HasSubstr(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    , StubDriver,
    testing::Values(Driver{"TooOld", {"STUB_DRIVER_VERSION=12040"}, "CUDA 12.4, this program for 13.0"},
                    Driver{"WithoutADevice", {"STUB_DRIVER_INIT=100"}, "cuInit gives 100, "},
                    Driver{"Broken", {"STUB_DRIVER_INIT=999"}, "cuInit gives 999"},
                    Driver{"WithNothingVisible", {"CUDA_VISIBLE_DEVICES=7"}, "CUDA_VISIBLE_DEVICES is '7'"}),
    [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace trireme::test
