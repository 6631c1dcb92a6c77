// What the demo reads beside the demo model: its long text. TRIREME_DEMO_MODEL names the model; without
// it what needs it is skipped, visibly.

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

using nlohmann::json;

const std::string kText = TRIREME_CONFIGS "/texts/kjv_end.txt";

std::string demo_model() {
    const char* path = std::getenv("TRIREME_DEMO_MODEL");
    return path == nullptr ? "" : path;
}

TEST(DemoText, IsLongEnoughForTheSpeedTable) {
    if (demo_model().empty()) GTEST_SKIP() << "TRIREME_DEMO_MODEL is not set: no demo model";

    const ProcessResult r = trireme({"tokenize", "-m", demo_model(), "-f", kText});

    ASSERT_EQ(r.status, 0) << r.err;
    EXPECT_GE(json::parse(r.out).size(), 7680u);
}

}  // namespace
}  // namespace trireme::test
