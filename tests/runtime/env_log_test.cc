#include <string>

#include <gtest/gtest.h>

#include "runtime/env.h"
#include "runtime/log.h"

namespace trireme::test {
namespace {

TEST(Env, HasADeadline) {
    EXPECT_GT(env().timeout_s, 0);
}

TEST(Log, EscapesControlCharactersAndCutsLongLines) {
    testing::internal::CaptureStderr();
    log::write(log::Level::kError, "a\x1b[31mb\nc" + std::string(10000, 'x'));
    const std::string out = testing::internal::GetCapturedStderr();

    EXPECT_NE(out.find("a\\x1b[31mb\\x0ac"), std::string::npos);
    EXPECT_EQ(out.find('\x1b'), std::string::npos);
    EXPECT_LT(out.size(), 4200u);
    EXPECT_EQ(out.find('\n'), out.size() - 1);
}

}  // namespace
}  // namespace trireme::test
