#pragma once
/// The law of a row of logits, and products of weights that are wider than a machine word (kernels/sampling.h).

#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/power_of_two.h"
#include "kernels/sampling.h"

namespace trireme {

__extension__ typedef unsigned __int128 U128;

/// Tokens ordered by falling logit, then rising id, as numbers: the first token has the largest key.
constexpr uint64_t order_key(float logit, int64_t id) {
    const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 is 0
    const uint32_t order = bits >> 31 ? ~bits : bits | 0x80000000u;
    return static_cast<uint64_t>(order) << 32 | (0xffffffffu - static_cast<uint32_t>(id));
}
constexpr float logit_of_key(uint64_t key) {
    const auto order = static_cast<uint32_t>(key >> 32);
    return std::bit_cast<float>(order >> 31 ? order & 0x7fffffffu : ~order);
}

/// Keys of finite logits are this or larger; keys of -inf are smaller.
inline constexpr uint64_t kLowestKey = ((order_key(-std::numeric_limits<float>::infinity(), 0) >> 32) + 1) << 32;

/// What a rule's filters leave of a row of logits: with the row it says what any id weighs.
struct RowLaw {
    uint64_t floor = 0;  // tokens with a smaller key are left out
    uint64_t least = 0;  // what weighs less weighs nothing
    uint64_t sum = 0;    // of the weights kept; at most 2^61, as a vocabulary has at most 2^21 ids
    float top = 0;       // the largest logit
    float scale = 0;     // the rule's; 0: all weight is on the first token
};
inline constexpr int64_t kRowLawWords = 4;
static_assert(sizeof(RowLaw) == kRowLawWords * sizeof(int64_t));

/// A row of logits where it lies: id i is data[i / cols * stride + i % cols]. Without data: a point mass.
struct LogitsRow {
    const float* data = nullptr;
    int64_t cols = 1, stride = 0;
};

inline constexpr float kLeastPower = -41;  // of 2; what lies below weighs nothing

/// What a logit weighs beside the largest one.
constexpr uint64_t weight_of(float logit, float top, float scale) {
    const float below = logit - top;  // an infinite scale must not meet 0
    const float power = below == 0 ? 0 : below * scale;
    if (power < kLeastPower) return 0;  // as it would be: most of a vocabulary
    return static_cast<uint64_t>(power_of_two(power) * SamplingRule::kFirstWeight);
}

/// What an id weighs by the law of `row`.
template <class Id>
constexpr uint64_t weight_at(const RowLaw& law, const LogitsRow& row, Id id) {
    const float logit = row.data[id / row.cols * row.stride + id % row.cols];
    if (order_key(logit, id) < law.floor) return 0;
    const uint64_t w = weight_of(logit, law.top, law.scale);
    return w < law.least ? 0 : w;
}

/// u / 2^53 < a / b, without rounding. u < 2^53; a, b < 2^125.
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

/// By how many bits a law of such a sum is shortened to be weights again: the sum is below 2^57 then, and no
/// probability moves by more than (ids of the law) / 2^56.
constexpr int rounding_shift(U128 sum) {
    int shift = 0;
    while (sum >> shift >= U128{1} << 57) ++shift;
    return shift;
}

/// A proposed token, as Kernels::accept takes it. In front of a proposal's tokens stands one for the text's last token,
/// of which only the uniform counts: it draws what stands behind the tokens that stay.
struct Proposal {
    int64_t token = 0;
    int64_t parent = -1;          // an earlier one of the same proposal; -1: the text's last token
    const RowLaw* law = nullptr;  // that it was drawn from, with `row`, both on the device
    LogitsRow row = {};           // without data: a point mass on the token
    uint64_t uniform = 0;         // times 2^53, of the decision about it
};
inline constexpr int64_t kProposalWords = 7;
static_assert(sizeof(Proposal) == kProposalWords * sizeof(int64_t));

}  // namespace trireme
