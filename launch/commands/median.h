#pragma once
/// Median of measurements, for bench and doctor.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trireme {

/// The middle value, or the mean of the two middle ones. `v` is not empty.
inline double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    const size_t n = v.size();
    return n % 2 == 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

}  // namespace trireme
