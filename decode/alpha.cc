#include "decode/alpha.h"

namespace trireme {

// The expected number of accepted tokens grows with alpha: bisects until no double lies between the bounds.
double alpha_of(int64_t accepted, std::span<const int64_t> proposed_at) {
    if (accepted <= 0) return 0;
    const auto staying = [&](double alpha) {
        double tokens = 0, stay = 1;
        for (const int64_t n : proposed_at) {
            stay *= alpha;
            tokens += stay * static_cast<double>(n);
        }
        return tokens;
    };
    double low = 0, high = 1;
    for (;;) {
        const double mid = (low + high) / 2;
        if (mid <= low || mid >= high) return high;
        (staying(mid) < static_cast<double>(accepted) ? low : high) = mid;
    }
}

}  // namespace trireme
