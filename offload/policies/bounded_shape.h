#pragma once
/// Which tokens a bounded view keeps: policies of eviction by their names, and what follows from them for each owner.

#include <cstdint>
#include <string_view>

#include "kernels/slots.h"
#include "offload/view.h"
#include "runtime/archive.h"
#include "runtime/memory_bytes.h"

namespace trireme {

enum class KvPolicy : uint8_t { kFull, kH2o, kStreaming, kTova, kSnapKv, kPyramidKv, kAdaKv, kKeyNorm, kRandom };
inline constexpr std::string_view kKvPolicyNames[] = {"full",      "h2o",   "streaming", "tova",  "snapkv",
                                                      "pyramidkv", "adakv", "knorm",     "random"};
constexpr std::string_view name_of(KvPolicy policy) {
    return kKvPolicyNames[static_cast<size_t>(policy)];
}

/// What becomes of the weights that the query heads of a KV head give: that of the first head, or of all of them.
enum class HeadsBy : uint8_t { kFirst, kMean, kSum, kMax };

struct BoundedShape {
    KvPolicy policy = KvPolicy::kFull;
    int64_t tokens = 0;    // W: that every KV head keeps, in the mean over layers, or over a layer's heads
    int64_t heavy = 0;     // H: of them, chosen by score (h2o, knorm); the others are the most recent
    int64_t sinks = 0;     // the first tokens of the text, always kept
    bool rolling = false;  // positions are counted among the tokens that are kept
    HeadsBy heads = HeadsBy::kMean;
    bool one_set = false;  // all KV heads of a layer keep the same tokens, by the mean of their scores
    bool half_scores = false;
    bool per_query = false;  // scores are divided by the number of queries that saw the token
    float decay = 1;         // of sums, with each query
    int64_t observe = 64;    // queries that count (snapkv and what is made of it)
    int64_t pool = 5;        // neighbours that a score is the mean of; odd
    int64_t every = 64;      // steps after which scores are counted anew
    int64_t chunk = 0;       // tokens of a prompt between two evictions; 0: all of them
    int64_t prompt = 0;      // tokens that are read at once at most, without chunks; 0: the context
    bool turns = false;      // they are read behind what is kept of earlier ones
    uint32_t seed = 0;       // of kRandom
    int64_t first_head = 0;  // the model's number of this rank's first KV head
    int64_t all_heads = 0;   // the model's KV heads, where they share slots
    int64_t key_rows = 0;    // of these, and of those that several ranks hold: rows of keys that ranks gather
    bool returns = false;    // truncate() back to the end of the first prompt is possible: a copy is kept

    /// What heads keep must be chosen in one way. Errors: Exit::kData.
    void same_as_in(Archive& ar) const;

    bool bounded() const { return policy != KvPolicy::kFull; }
    /// Whether scores come from attention.
    bool attentive() const { return policy == KvPolicy::kH2o || policy == KvPolicy::kTova || observing(); }
    /// Whether H tokens are chosen by score and the others are the most recent.
    bool divided() const { return policy == KvPolicy::kH2o || policy == KvPolicy::kKeyNorm; }
    bool observing() const {
        return policy == KvPolicy::kSnapKv || policy == KvPolicy::kPyramidKv || policy == KvPolicy::kAdaKv;
    }
    /// Whether the heads of a layer may keep one set of tokens: each scores by attention, and has as many slots.
    bool may_keep_one_set() const { return attentive() && !shares(); }
    /// Whether the heads of a layer share its slots, W each in the mean.
    bool shares() const { return policy == KvPolicy::kAdaKv; }
    /// The last tokens that are kept whatever they score.
    int64_t recent() const;
    /// Tokens that each KV head of an owner keeps, where heads share them in the mean.
    int64_t budget(OwnerIndex owner, int64_t owners) const;
    /// The largest of them.
    int64_t most_tokens(int64_t owners) const;
    SlotShare share() const;
    /// Where heads share slots: what so many of them may keep together at most, and in which tiles.
    int64_t shared_tokens(int64_t together) const;
    int64_t shared_tiles(int64_t together) const;
    /// The most that one head of any owner may keep.
    int64_t most_of_head(int64_t owners) const;
    SlotRule rule() const;
    /// Of a call of so many queries, how many of the last ones are counted.
    int64_t counted(int64_t queries) const;
};

/// Errors: Exit::kConfig where the numbers contradict each other, of so many owners: heavy >= tokens, more sinks than
/// places for them, a window that leaves nothing to choose.
void check_bounded(const BoundedShape& shape, int64_t owners);

}  // namespace trireme
