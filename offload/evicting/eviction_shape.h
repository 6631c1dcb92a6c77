#pragma once
/// EvictionShape: parameters of KV cache eviction (--kv-policy, --kv-window and related flags), and the budgets and
/// rules that follow from them for each owner.

#include <cstdint>

#include "kernels/slots.h"
#include "offload/cache.h"
#include "offload/evicting/policies.h"
#include "runtime/archive.h"
#include "runtime/memory_bytes.h"

namespace trireme {

/// How the attention weights of a KV head's query heads are combined (GQA): by their mean, sum or maximum, or the first
/// head's alone. If several layers read an owner, kMean is also the mean over them, and kFirst counts only the first.
enum class HeadsBy : uint8_t { kFirst, kMean, kSum, kMax };

struct EvictionShape {
    KvPolicy policy = KvPolicy::kFull;
    int64_t budget = 0;    // W: tokens per KV head (the mean, if layers or a layer's heads differ)
    int64_t heavy = 0;     // H: tokens of W chosen by score, where divided(); the others are the most recent
    int64_t sinks = 0;     // the first tokens of the sequence, always retained
    bool rolling = false;  // RoPE positions are counted among the retained tokens, not in the sequence
    HeadsBy heads = HeadsBy::kMean;
    bool one_set = false;      // all KV heads of a layer retain the same tokens, by the mean of their scores
    bool half_scores = false;  // scores are rounded to f16 (h2o, tova)
    bool per_query = false;    // sums are divided by the number of queries that saw the token (h2o)
    float decay = 1;           // factor of the sums for each query
    int64_t observe = 64;      // observing(): the last queries, from which scores come
    int64_t pool = 5;          // observing() without expects(): tokens over which scores are smoothed, odd
    int64_t every = 64;        // observing(): decode steps from one re-scoring to the next
    int64_t chunk = 0;         // tokens of a prompt between two evictions; 0: all of them
    int64_t prompt = 0;        // the most tokens that are read at once, without chunks; 0: the context
    bool turns = false;        // several prompts (a session); each follows the tokens retained of earlier ones
    uint32_t seed = 0;         // seed of kRandom
    int64_t first_head = 0;    // the model's number of this rank's first KV head
    int64_t all_heads = 0;     // the number of the model's KV heads, if they share slots
    int64_t key_rows = 0;      // rows of keys that ranks gather: ranks * the most KV heads of one rank
    bool returns = false;      // truncate() to the end of the last prefill is possible: a copy is kept

    /// Writes these parameters, or checks that a snapshot has the same. Errors: Exit::kData if they differ.
    void same_as_in(Archive& ar) const;

    bool evicts() const { return policy != KvPolicy::kFull; }
    /// Whether scores come from attention.
    bool attentive() const { return row_of(policy).queries != QueriesBy::kNone; }
    /// Whether H tokens are chosen by score and the others are the most recent.
    bool divided() const { return row_of(policy).recent == RecentBy::kDivided; }
    /// Whether scores come from the last `observe` queries.
    bool observing() const { return row_of(policy).queries == QueriesBy::kObserved; }
    /// Whether these queries are a sample of the next tokens' queries (Expected Attention).
    bool expects() const { return row_of(policy).expects; }
    /// Whether one_set is possible: heads score by attention, and all heads of a layer have the same number of slots.
    bool may_keep_one_set() const { return attentive() && !shares(); }
    /// Whether the heads of a layer share its slots, W each on average.
    bool shares() const { return row_of(policy).shares; }
    /// The number of last tokens that are retained whatever they score.
    int64_t recent() const;
    /// Tokens that each KV head of an owner retains; the mean, if heads share slots.
    int64_t budget_of(OwnerIndex owner, int64_t owners) const;
    /// The largest budget of all owners.
    int64_t most_tokens(int64_t owners) const;
    /// How heads share a layer's slots, if they do.
    SlotShare share() const;
    /// If heads share slots: the most tokens that `together` of the model's KV heads may retain.
    int64_t shared_tokens(int64_t together) const;
    /// The most tiles that these tokens occupy.
    int64_t shared_tiles(int64_t together) const;
    /// The most tokens that one head of any owner may retain.
    int64_t most_of_head(int64_t owners) const;
    SlotRule rule() const;
    /// The number of a call's last queries whose attention is counted; `queries`: all of the call.
    int64_t counted(int64_t queries) const;
};

}  // namespace trireme
