#pragma once
/// Bounded KV (kernels/slots.h): what scores are, who is protected and who goes first. Pure functions of scores and
/// numbers, one body for every backend.
///
/// A head's tokens have ranks: 0 is the oldest that it keeps. Of two tokens with one score the older is worth more.

#include <cstdint>

#include "kernels/law.h"
#include "runtime/dtype.h"

namespace trireme {

/// What a token's score is.
enum class ScoreBy : uint8_t {
    kNothing,  // 0
    kSum,      // the attention it got, summed over all queries (H2O)
    kLast,     // the attention it got from the last query (TOVA, arXiv 2401.06104)
    kWindow,   // that from the most recent queries, smoothed over neighbours, when it was last counted (SnapKV,
               // 2404.14469)
    kKeyNorm,  // minus the square of its key's norm (2406.11430)
    kRandom,   // a number drawn once
};

/// How a head chooses what it keeps. `recent`: its last tokens, which are kept whatever they score.
struct SlotRule {
    ScoreBy by = ScoreBy::kNothing;
    bool half = false;       // sums of attention are rounded to f16 after each call, as the public code has them
    bool per_query = false;  // sums are compared divided by the number of queries that have seen the token
    int32_t recent = 1;      // tokens
    int32_t sinks = 0;       // a text's first tokens, worth more than any score
    float decay = 1;         // what a sum is multiplied by for each query
    uint32_t seed = 0;       // kRandom
    int32_t first_head = 0;  // the model's number of this rank's first KV head
    int32_t window = 0;      // kWindow: queries that are counted
    int32_t pool = 1;        // kWindow: neighbours, odd

    /// Whether attention's weights matter in every call.
    constexpr bool counts_all() const { return by == ScoreBy::kSum || by == ScoreBy::kLast; }
};

/// x^n, one multiplication after the other by halves: the same on every backend.
constexpr float power(float x, int64_t n) {
    float result = 1;
    for (; n > 0; n /= 2, x *= x) {
        if (n % 2 != 0) result *= x;
    }
    return result;
}

constexpr float as_half(float x) {
    return static_cast<float>(f16(x));
}

/// A score that attention adds to: `weight` is what the token got in a call of `queries`, and had `old` before.
constexpr float attended_score(const SlotRule& rule, float old, float weight, int64_t queries) {
    if (rule.by == ScoreBy::kLast) return rule.half ? as_half(weight) : weight;
    const float kept = rule.decay == 1.0F ? old : old * power(rule.decay, queries);
    return rule.half ? as_half(kept + as_half(weight)) : kept + weight;
}

/// In [0, 1): of this token of this head of this owner (splitmix64's finalizer).
constexpr float random_score(const SlotRule& rule, int64_t owner, int64_t head, int64_t token) {
    uint64_t x = (static_cast<uint64_t>(rule.seed) << 32 ^ static_cast<uint64_t>(token)) +
                 0x9e3779b97f4a7c15u * static_cast<uint64_t>(((owner << 20) + rule.first_head + head + 1));
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return static_cast<float>((x ^ x >> 31) >> 40) * 0x1p-24F;
}

/// What a token is worth among those that are not protected, all of them different; `tokens`: those of the text so far.
constexpr uint64_t worth(const SlotRule& rule, float score, int64_t token, int64_t tokens) {
    if (token < rule.sinks) return uint64_t{0xffffffff} << 32 | (0xffffffffu - static_cast<uint32_t>(token));
    const float seen = rule.per_query ? static_cast<float>(tokens - token) : 1.0F;
    return order_key(score / seen, token);
}

/// The mean of a token's weight and its neighbours', `pool` of them, those beyond [begin, end) counted as zeros.
constexpr float smoothed(const float* weights, int64_t begin, int64_t end, int64_t at, int32_t pool) {
    float sum = 0;
    const int64_t first = at - pool / 2 < begin ? begin : at - pool / 2;
    const int64_t last = at + pool / 2 < end ? at + pool / 2 : end - 1;
    for (int64_t i = first; i <= last; ++i) sum += weights[i];
    return sum / static_cast<float>(pool);
}

/// How the query heads that read a KV head become one.
enum class HeadPool : uint8_t { kAdd, kMax };

/// Tokens that one call has added behind those that heads kept before. A head's entries, the kept ones by rank and the
/// fresh ones behind them, end at entry `cached + fresh`; heads that kept fewer than `cached` begin later.
struct SlotCall {
    int64_t owner = 0;
    int64_t cached = 0, fresh = 0;
    int64_t first_token = 0;  // the text's number of the first fresh one
    int64_t reserve = 0;      // slots that are to be free afterwards: every budget is smaller by so many
    bool retiled = false;     // heads have been given other tiles: what stays is copied from the entries, all of it

    constexpr int64_t entries() const { return cached + fresh; }
};

/// How the heads of a layer share its slots (Ada-KV, arXiv 2407.11550): all ranks' heads together keep `tokens` each in
/// the mean, those that are worth most wherever they are; every head keeps at least `least` beside its recent ones.
struct SlotShare {
    int64_t tokens = 0, least = 0;
};
inline constexpr int64_t kMostSharing = 1024;  // heads that may share

/// What a head has in the share: of so many entries of all heads, `own` its entries that stay, budgets are this.
constexpr int64_t shared_budget(const SlotShare& share, int64_t heads, int64_t own, int64_t all) {
    return own + (share.tokens * heads - all) / heads;
}

}  // namespace trireme
