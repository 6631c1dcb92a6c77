#pragma once
/// What benchmarks measure with.

#include <algorithm>
#include <chrono>
#include <vector>

namespace trireme::bench {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double median(std::vector<double> x) {
    std::sort(x.begin(), x.end());
    return x[x.size() / 2];
}

}  // namespace trireme::bench
