#pragma once
/// Numbers in the text that a program prints.

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace trireme::test {

/// The number that follows `mark` in a text.
inline double number_after(const std::string& text, const std::string& mark) {
    const size_t at = text.find(mark);
    EXPECT_NE(at, std::string::npos) << mark << " in:\n" << text;
    return at == std::string::npos ? 0 : std::strtod(text.c_str() + at + mark.size(), nullptr);
}

}  // namespace trireme::test
