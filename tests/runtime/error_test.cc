#include "runtime/error.h"

#include <string>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

TEST(Error, CheckNamesFileAndLine) {
    const int line = __LINE__ + 2;
    try {
        check(false, "{} rows, want {}", 3, 4);
        FAIL() << "no error";
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kInternal);
        EXPECT_NE(std::string(e.what()).find(fmt::format("error_test.cc:{}: 3 rows, want 4", line)), std::string::npos)
            << e.what();
    }
}

TEST(Error, FailCarriesItsCode) {
    try {
        fail(Exit::kData, "bad {}", "news");
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), Exit::kData);
        EXPECT_STREQ(e.what(), "bad news");
    }
    EXPECT_NO_THROW(require(true, Exit::kData, "unused"));
    EXPECT_NO_THROW(check(true, "unused"));
}

TEST(Error, AMessageDoesNotEndWhereItQuotesANul) {
    try {
        fail(Exit::kConfig, "'{}': want a number", std::string("1\0\0x", 4));
    } catch (const Error& e) {
        EXPECT_STREQ(e.what(), "'1\\x00\\x00x': want a number");
    }
}

}  // namespace
}  // namespace trireme::test
