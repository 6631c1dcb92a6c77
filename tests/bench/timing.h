#pragma once
/// Clock, median and prompts of benchmarks.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace trireme::bench {

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double median(std::vector<double> x) {
    std::sort(x.begin(), x.end());
    return x[x.size() / 2];
}

/// An arbitrary prompt: n ids below `vocab`, far from each other.
inline std::vector<int32_t> any_prompt(int64_t n, int64_t vocab) {
    std::vector<int32_t> ids(static_cast<size_t>(n));
    for (size_t i = 0; i < ids.size(); ++i) {
        ids[i] = static_cast<int32_t>((i * 7919 + 13) % static_cast<size_t>(vocab));
    }
    return ids;
}

}  // namespace trireme::bench
