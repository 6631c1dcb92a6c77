#pragma once
/// Distribution of a row of logits, and products of weights, which are wider than a machine word (sampling.h).

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/power_of_two.h"
#include "kernels/sampling.h"

namespace trireme {

__extension__ typedef unsigned __int128 U128;

/// Sort key of a token: tokens are ordered by falling logit, then rising id, and the first has the largest key.
constexpr uint64_t order_key(float logit, int64_t id) {
    const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 is 0
    const uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(order) << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}
/// Returns the logit of a sort key; -0 has become 0.
constexpr float logit_of_key(uint64_t key) {
    const auto order = static_cast<uint32_t>(key >> 32);
    return std::bit_cast<float>(order >> 31 ? order & 0x7fffffffu : ~order);
}

/// Keys of finite logits are this or larger; keys of -inf are smaller.
inline constexpr uint64_t kLowestKey = ((order_key(-std::numeric_limits<float>::infinity(), 0) >> 32) + 1) << 32;

/// Distribution of a row of logits after a rule's filters. Together with the row it gives the weight of any id.
struct RowDistribution {
    uint64_t floor = 0;  // tokens with a smaller key have weight 0
    uint64_t least = 0;  // smaller weights count as 0
    uint64_t sum = 0;    // of the remaining weights; at most 2^61, because a vocabulary has at most 2^21 ids
    float top = 0;       // the largest logit
    float scale = 0;     // SamplingRule's; 0: all weight is on the first token
};
inline constexpr int64_t kRowDistributionWords = 4;
static_assert(sizeof(RowDistribution) == kRowDistributionWords * sizeof(int64_t));

/// View of a row of logits: id i is data[i / cols * stride + i % cols]. Without data: a point mass.
struct LogitsRow {
    const float* data = nullptr;
    int64_t cols = 1, stride = 0;
};

inline constexpr float kLeastPower = -41;  // exponents of 2 below this give weight 0
static_assert(kLeastPower - 1 >= -64, "power_of_two takes exponents from -64 on; row_weight clamps them to this");
static_assert(power_of_two(kLeastPower) * SamplingRule::kFirstWeight < 1, "such weights are rounded down to 0");

/// Weight of a logit, relative to the largest logit `top`.
constexpr uint64_t weight_of(float logit, float top, float scale) {
    const float below = logit - top;  // 0 times an infinite scale would be NaN
    const float power = below == 0 ? 0 : below * scale;
    if (power < kLeastPower) return 0;  // as the product would be; true for most of a vocabulary
    return static_cast<uint64_t>(power_of_two(power) * SamplingRule::kFirstWeight);
}

/// Weight of an id in the distribution of `row`.
template <class Id>
constexpr uint64_t weight_at(const RowDistribution& distribution, const LogitsRow& row, Id id) {
    const float logit = row.data[id / row.cols * row.stride + id % row.cols];
    if (order_key(logit, id) < distribution.floor) return 0;
    const uint64_t w = weight_of(logit, distribution.top, distribution.scale);
    return w < distribution.least ? 0 : w;
}

/// Returns whether u / 2^53 < a / b, without rounding. u < 2^53; a, b < 2^125.
constexpr bool below(uint64_t u, U128 a, U128 b) {
    // u b < a 2^53, each side as 2^64 high + low.
    const U128 low = static_cast<U128>(u) * static_cast<uint64_t>(b);
    const U128 left = static_cast<U128>(u) * static_cast<uint64_t>(b >> 64) + (low >> 64);
    const U128 shifted = static_cast<U128>(static_cast<uint64_t>(a)) << SamplingRule::kFractionBits;
    const U128 right = ((a >> 64) << SamplingRule::kFractionBits) + (shifted >> 64);
    if (left != right) return left < right;
    return static_cast<uint64_t>(low) < static_cast<uint64_t>(shifted);
}

/// floor(u / 2^53 * total).  total < 2^125.
constexpr U128 share(uint64_t u, U128 total) {
    const U128 low = static_cast<U128>(u) * static_cast<uint64_t>(total);
    const U128 high = static_cast<U128>(u) * static_cast<uint64_t>(total >> 64) + (low >> 64);
    return (high << (64 - SamplingRule::kFractionBits)) | (static_cast<uint64_t>(low) >> SamplingRule::kFractionBits);
}

/// Right shift that makes weights with this sum fit 64 bits again. Their sum is below 2^57 then, and no probability
/// changes by more than (ids of the distribution) / 2^56.
constexpr int rounding_shift(U128 sum) {
    int shift = 0;
    while (sum >> shift >= U128{1} << 57) ++shift;
    return shift;
}

/// A proposed token, as Kernels::accept takes it. The first element of a proposal represents the sequence's last token.
/// Only its uniform is used: it draws the token that follows the accepted ones.
struct Proposal {
    int64_t token = 0;
    int64_t parent = -1;  // an earlier token of the same proposal; -1: the sequence's last token
    const RowDistribution* distribution =
        nullptr;           // distribution that it was drawn from, with `row`; both in device memory
    LogitsRow row = {};    // without data: a point mass on the token
    uint64_t uniform = 0;  // of the decision about it, times 2^53
};
inline constexpr int64_t kProposalWords = 7;
static_assert(sizeof(Proposal) == kProposalWords * sizeof(int64_t));

}  // namespace trireme
