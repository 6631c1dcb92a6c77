#include "offload/evicting/eviction_shape.h"

#include <algorithm>

#include "runtime/error.h"

namespace trireme {

void EvictionShape::same_as_in(Archive& ar) const {
    const auto number = [](auto x) { return static_cast<double>(x); };
    const std::array numbers = {number(policy),     number(budget),      number(heavy),
                                number(sinks),      number(rolling),     number(heads),
                                number(per_query),  number(decay),       number(expects() ? 1 : pool),
                                number(every),      number(half_scores), number(observe),
                                number(first_head), number(one_set)};
    ar.same(numbers, "the KV policy, its budget or another of its parameters");
    double seed_there = number(seed);  // in every snapshot
    ar.value(seed_there);
    require(!row_of(policy).drawn || seed_there == number(seed), Exit::kData,
            "KV policy {}: the snapshot was written with seed {:.0f}, this run has {}; use the same", name_of(policy),
            seed_there, seed);
}

int64_t EvictionShape::recent() const {
    switch (row_of(policy).recent) {
        case RecentBy::kDivided:
            return budget - heavy;
        case RecentBy::kSinks:
            return budget - sinks;
        case RecentBy::kObserved:
            return observe;
        case RecentBy::kNewest:
            break;
    }
    return 1;
}

// PyramidKV (arXiv 2406.02069, section 3.2): the budget beyond the window falls from layer to layer by equal steps. The
// last layer has a twentieth of W beyond it, and the mean budget is W. The first layer has no more than the prompt:
// what it cannot use goes to the upper layers, as in the authors' code and in kvpress.
int64_t EvictionShape::budget_of(OwnerIndex owner, int64_t owners) const {
    if (!row_of(policy).pyramid || owners == 1) return budget;
    const int64_t above = budget - observe;
    int64_t last = std::min(budget / 20, above), first = 2 * above - last;
    if (const int64_t most = std::max(above, prompt - observe); prompt > 0 && !turns && first > most) {
        first = most;
        last = 2 * above - first;
    }
    // Differences of the rounded running sum: the sum over all owners is exact.
    const auto sum = [&](int64_t n) { return n * first - (first - last) * n * (n - 1) / (2 * (owners - 1)); };
    return observe + sum(owner.i + 1) - sum(owner.i);
}

int64_t EvictionShape::most_tokens(int64_t owners) const {
    int64_t most = 0;
    for (OwnerIndex owner; owner.i < owners; ++owner) most = std::max(most, budget_of(owner, owners));
    return most;
}

// Ada-KV (arXiv 2407.11550, section 3.3) with the floor that its authors use: each head retains at least a fifth of W.
SlotShare EvictionShape::share() const {
    return {.tokens = budget, .least = std::max<int64_t>(0, budget / 5 - recent())};
}

int64_t EvictionShape::shared_tokens(int64_t together) const {
    return all_heads * budget - (all_heads - together) * (share().least + recent());
}

int64_t EvictionShape::shared_tiles(int64_t together) const {
    return shared_tokens(together) / kTileTokens + together;  // a head's last tile may be partly used
}

int64_t EvictionShape::most_of_head(int64_t owners) const {
    return shares() ? shared_tokens(1) : most_tokens(owners);
}

SlotRule EvictionShape::rule() const {
    const ScoreBy by = row_of(policy).by;
    return {.by = by,
            .half = half_scores,
            .per_query = per_query && by == ScoreBy::kSum,
            .recent = static_cast<int32_t>(recent()),
            .sinks = static_cast<int32_t>(sinks),
            .decay = decay,
            .seed = seed,
            .first_head = static_cast<int32_t>(first_head),
            .window = static_cast<int32_t>(observing() ? observe : 0),
            .pool = static_cast<int32_t>(observing() && !expects() ? pool : 1)};
}

int64_t EvictionShape::counted(int64_t queries) const {
    switch (row_of(policy).queries) {
        case QueriesBy::kAll:
            return queries;
        case QueriesBy::kLast:
            return 1;
        case QueriesBy::kObserved:
            return std::min(observe, queries);
        case QueriesBy::kNone:
            break;
    }
    return 0;
}

}  // namespace trireme
