#pragma once
/// The comparison of the tests: passes only on a true comparison, so NaN fails; names the first wrong coordinate.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>

#include <gtest/gtest.h>

namespace trireme::test {

/// |got - want| <= tol for every element.
template <class A, class B>
testing::AssertionResult near(std::span<const A> got, std::span<const B> want, double tol) {
    if (got.size() != want.size()) {
        return testing::AssertionFailure() << "got " << got.size() << " elements, want " << want.size();
    }
    int64_t wrong = 0, first = -1;
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
        const double a = static_cast<double>(got[i]), b = static_cast<double>(want[i]);
        if (a == b || std::fabs(a - b) <= tol) {
            worst = std::fmax(worst, std::fabs(a - b));
            continue;
        }
        if (wrong++ == 0) first = static_cast<int64_t>(i);
    }
    if (wrong == 0) return testing::AssertionSuccess();
    const size_t f = static_cast<size_t>(first);
    return testing::AssertionFailure() << wrong << " of " << got.size() << " elements differ by more than " << tol
                                       << "; first at " << first << ": got " << static_cast<double>(got[f]) << ", want "
                                       << static_cast<double>(want[f]);
}

/// The largest magnitude, to which relative bounds refer.
inline double largest(std::span<const float> x) {
    double top = 0;
    for (const float v : x) top = std::max(top, std::fabs(static_cast<double>(v)));
    return top;
}

/// Every element equal in value and in bits.
template <class T>
testing::AssertionResult same_bits(std::span<const T> got, std::span<const T> want) {
    if (got.size() != want.size()) {
        return testing::AssertionFailure() << "got " << got.size() << " elements, want " << want.size();
    }
    for (size_t i = 0; i < got.size(); ++i) {
        if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0) {
            return testing::AssertionFailure() << "bits differ first at " << i << " of " << got.size();
        }
    }
    return testing::AssertionSuccess();
}

}  // namespace trireme::test
