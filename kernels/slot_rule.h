#pragma once
/// Rules of KV cache eviction (kernels/slots.h): scores, protected tokens, and which token is evicted first. Pure
/// functions of scores and indices, one body for every backend.
///
/// A head's tokens have ranks: 0 is the oldest that it retains. Of two tokens with one score the older has priority.

#include <cstdint>

#include "kernels/distribution.h"
#include "runtime/dtype.h"

namespace trireme {

/// How a token is scored.
enum class ScoreBy : uint8_t {
    kNothing,  // 0
    kSum,      // the attention it received, summed over all queries (H2O)
    kLast,     // the attention it received from the last query (TOVA, arXiv 2401.06104)
    kWindow,   // the attention it received from the most recent queries when last counted, smoothed over
               // neighbours (SnapKV, 2404.14469)
    kKeyNorm,  // minus the square of its key's norm (2406.11430)
    kRandom,   // a number drawn once
    kKeyDiff,  // minus the cosine of its key with the mean direction of all the head's keys (KeyDiff, 2504.15364)
};

/// How a head selects the tokens that it retains. Its last `recent` tokens are retained whatever they score.
struct SlotRule {
    ScoreBy by = ScoreBy::kNothing;
    bool half = false;       // sums of attention are rounded to f16 after each call, as in the public code
    bool per_query = false;  // sums are divided by the number of queries that have seen the token
    int32_t recent = 1;      // tokens
    int32_t sinks = 0;       // a sequence's first tokens, above any score
    float decay = 1;         // factor of a sum for each query
    uint32_t seed = 0;       // kRandom
    int32_t first_head = 0;  // index of this rank's first KV head in the model
    int32_t window = 0;      // kWindow: number of queries counted
    int32_t pool = 1;        // kWindow: neighbours averaged, odd

    /// Whether scores come from the elements of keys.
    constexpr bool reads_keys() const { return by == ScoreBy::kKeyNorm || by == ScoreBy::kKeyDiff; }
    /// Whether every call needs the weights of attention.
    constexpr bool counts_all() const { return by == ScoreBy::kSum || by == ScoreBy::kLast; }
};

/// x^n by repeated squaring: the same bits on every backend.
constexpr float power(float x, int64_t n) {
    float result = 1;
    for (; n > 0; n /= 2, x *= x) {
        if (n % 2 != 0) result *= x;
    }
    return result;
}

/// x, rounded to f16.
constexpr float as_half(float x) {
    return static_cast<float>(f16(x));
}

/// Score after a call of `queries` queries: `old` is the score before, `weight` the attention received in the call.
constexpr float attended_score(const SlotRule& rule, float old, float weight, int64_t queries) {
    if (rule.by == ScoreBy::kLast) return rule.half ? as_half(weight) : weight;
    const float kept = rule.decay == 1.0F ? old : old * power(rule.decay, queries);
    return rule.half ? as_half(kept + as_half(weight)) : kept + weight;
}

/// Random number in [0, 1) for a token of a head of an owner (splitmix64's finalizer).
constexpr float random_score(const SlotRule& rule, int64_t owner, int64_t head, int64_t token) {
    uint64_t x = (static_cast<uint64_t>(rule.seed) << 32 ^ static_cast<uint64_t>(token)) +
                 0x9e3779b97f4a7c15u * static_cast<uint64_t>(((owner << 20) + rule.first_head + head + 1));
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return static_cast<float>((x ^ x >> 31) >> 40) * 0x1p-24F;
}

/// Score of a new token, before attention has seen it. `square`: of its key's norm, used by kKeyNorm only.
constexpr float first_score(const SlotRule& rule, int64_t owner, int64_t head, int64_t token, float square) {
    switch (rule.by) {
        case ScoreBy::kRandom:
            return random_score(rule, owner, head, token);
        case ScoreBy::kKeyNorm:
            return -square;
        case ScoreBy::kNothing:
        case ScoreBy::kSum:
        case ScoreBy::kLast:
        case ScoreBy::kWindow:
        case ScoreBy::kKeyDiff:  // scored at the end of a call, if at all
            break;
    }
    return 0;
}

/// Priority of an unprotected token, all different: the lowest is evicted first. `tokens`: the sequence's length so
/// far.
constexpr uint64_t worth(const SlotRule& rule, float score, int64_t token, int64_t tokens) {
    if (token < rule.sinks) return uint64_t{0xffffffff} << 32 | (0xffffffffu - static_cast<uint32_t>(token));
    const float seen = rule.per_query ? static_cast<float>(tokens - token) : 1.0F;
    return order_key(score / seen, token);
}

/// KeyDiff, for a vector of this length: the factor that makes it a unit vector; 0 for a zero vector.
constexpr float unit_factor(float length) {
    return length > 0 ? 1.0F / length : 0.0F;
}

/// KeyDiff's score of a key: `dot` is its product with the sum of the unit vectors of the head's keys, `key` and `mean`
/// are the unit factors of both.
constexpr float difference_score(float dot, float key, float mean) {
    return -(dot * key * mean);
}

/// Expected Attention: the exponent, in powers of 2, of a slot's expected weight. Scores of queries have a mean and a
/// variance, and e^score has the mean e^(mean + variance / 2) if they are normally distributed. `first` is the score of
/// the first query; `mean` and `square` are means over all queries of their scores' differences from it, and of the
/// squares of these.
constexpr float expected_exponent(float first, float mean, float square) {
    return (first + mean + (square - mean * mean) * 0.5F) * 1.44269504F;
}

/// Mean over `pool` weights: the token's and its neighbours', where those outside [begin, end) count as zeros.
constexpr float smoothed(const float* weights, int64_t begin, int64_t end, int64_t at, int32_t pool) {
    float sum = 0;
    const int64_t first = at - pool / 2 < begin ? begin : at - pool / 2;
    const int64_t last = at + pool / 2 < end ? at + pool / 2 : end - 1;
    for (int64_t i = first; i <= last; ++i) sum += weights[i];
    return sum / static_cast<float>(pool);
}

/// How weights of query heads that read one KV head are combined.
enum class HeadPool : uint8_t { kAdd, kMax };

/// A call appends `fresh` tokens to those that heads retain. A head's entries are its retained tokens by rank, then the
/// fresh ones. They end at entry `cached + fresh`; heads that retain fewer than `cached` begin later.
struct SlotCall {
    int64_t owner = 0;
    int64_t cached = 0, fresh = 0;
    int64_t first_token = 0;  // index of the first fresh token in the sequence
    int64_t reserve = 0;      // slots to leave free afterwards: every budget is smaller by this number
    bool retiled = false;     // heads were given other tiles: all retained tokens are copied from the entries

    constexpr int64_t entries() const { return cached + fresh; }
};

/// How heads of a layer share its slots (Ada-KV, arXiv 2407.11550): heads of all ranks together retain `tokens` each on
/// average, those of the highest priority in any head. Every head retains at least `least`, and its recent ones.
struct SlotShare {
    int64_t tokens = 0, least = 0;
};
inline constexpr int64_t kMostSharing = 1024;  // heads that may share

/// Budget of a head that retains `own` entries, if all heads retain `all`: left-over slots are divided equally.
constexpr int64_t shared_budget(const SlotShare& share, int64_t heads, int64_t own, int64_t all) {
    return own + (share.tokens * heads - all) / heads;
}

}  // namespace trireme
