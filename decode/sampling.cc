#include "decode/sampling.h"

#include <cmath>

#include "runtime/error.h"

namespace trireme {

void validate(const SamplingParams& p) {
    require(std::isfinite(p.temperature) && p.temperature >= 0, Exit::kConfig,
            "temperature {}: want 0 (greedy) or more", p.temperature);
    require(p.top_k >= 0, Exit::kConfig, "top-k {}: want 0 (off) or more", p.top_k);
    require(p.top_p > 0 && p.top_p <= 1, Exit::kConfig, "top-p {}: want a number in (0, 1]; 1 is off", p.top_p);
    require(p.min_p >= 0 && p.min_p <= 1, Exit::kConfig, "min-p {}: want a number in [0, 1]; 0 is off", p.min_p);
}

}  // namespace trireme
