#pragma once
/// Table of eviction policies (--kv-policy): a row for each. offload/README.md lists what a new
/// policy needs.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/slot_rule.h"
#include "runtime/index.h"

namespace trireme {

/// Indices of kPolicies. Snapshots contain them: new ones come last.
enum class KvPolicy : uint8_t {
    kFull,
    kH2o,
    kStreaming,
    kTova,
    kSnapKv,
    kPyramidKv,
    kAdaKv,
    kKeyNorm,
    kRandom,
    kKeyDiff,
    kExpected
};

/// The last tokens that are retained whatever they score: W - H, where H tokens (--kv-heavy) are selected by score; all
/// but the sinks; the last queries observed; or the newest token alone. Sinks rank above any score.
enum class RecentBy : uint8_t { kDivided, kSinks, kObserved, kNewest };
/// The queries of a call whose attention counts: none, all, the last one, or the last --kv-observe.
enum class QueriesBy : uint8_t { kNone, kAll, kLast, kObserved };

struct PolicyRow {
    std::string_view name;
    std::string_view meaning;  // for --help
    ScoreBy by;
    RecentBy recent;
    QueriesBy queries = QueriesBy::kNone;
    int64_t sinks = 0;     // default of --kv-sinks
    bool one_set = false;  // default of --kv-heads-share: the heads of a layer retain the same tokens
    bool shares = false;   // the heads of a layer share its slots
    bool pyramid = false;  // higher layers retain fewer tokens
    bool drawn = false;    // scores depend on --seed
    bool expects = false;  // the observed queries are a sample of the next tokens' queries
};

inline constexpr std::array kPolicies = {
    PolicyRow{"full", "no eviction", ScoreBy::kNothing, RecentBy::kNewest},
    PolicyRow{"h2o", "accumulated attention, and recent tokens", ScoreBy::kSum, RecentBy::kDivided, QueriesBy::kAll},
    PolicyRow{.name = "streaming",
              .meaning = "first and recent tokens",
              .by = ScoreBy::kNothing,
              .recent = RecentBy::kSinks,
              .sinks = 4},
    PolicyRow{.name = "tova",
              .meaning = "attention of the last query",
              .by = ScoreBy::kLast,
              .recent = RecentBy::kNewest,
              .queries = QueriesBy::kLast,
              .one_set = true},
    PolicyRow{"snapkv", "attention of recent queries", ScoreBy::kWindow, RecentBy::kObserved, QueriesBy::kObserved},
    PolicyRow{.name = "pyramidkv",
              .meaning = "like snapkv, fewer tokens in higher layers",
              .by = ScoreBy::kWindow,
              .recent = RecentBy::kObserved,
              .queries = QueriesBy::kObserved,
              .pyramid = true},
    PolicyRow{.name = "adakv",
              .meaning = "like snapkv, heads of a layer share the budget",
              .by = ScoreBy::kWindow,
              .recent = RecentBy::kObserved,
              .queries = QueriesBy::kObserved,
              .shares = true},
    PolicyRow{"knorm", "small key norms, and recent tokens", ScoreBy::kKeyNorm, RecentBy::kDivided},
    PolicyRow{.name = "random",
              .meaning = "numbers drawn once",
              .by = ScoreBy::kRandom,
              .recent = RecentBy::kNewest,
              .drawn = true},
    PolicyRow{"keydiff", "keys unlike the head's mean key, and recent tokens", ScoreBy::kKeyDiff, RecentBy::kDivided},
    PolicyRow{.name = "expected",
              .meaning = "attention that next tokens are expected to give",
              .by = ScoreBy::kWindow,
              .recent = RecentBy::kObserved,
              .queries = QueriesBy::kObserved,
              .sinks = 4,
              .expects = true},
};

static_assert(kPolicies.size() == static_cast<size_t>(KvPolicy::kExpected) + 1, "a row for each policy, in order");

constexpr const PolicyRow& row_of(KvPolicy policy) {
    return kPolicies[index(policy)];
}
constexpr std::string_view name_of(KvPolicy policy) {
    return row_of(policy).name;
}
/// All policies that evict, in the order of the table.
constexpr auto evicting_policies() {
    std::array<KvPolicy, kPolicies.size() - 1> policies = {};
    for (size_t i = 0; i < policies.size(); ++i) policies[i] = static_cast<KvPolicy>(i + 1);
    return policies;
}
/// The names of the policies with this property, divided by `separator`.
template <class Has>
std::string policy_names(const Has& has, std::string_view separator) {
    std::string names;
    for (const PolicyRow& row : kPolicies) {
        if (has(row)) names.append(names.empty() ? "" : separator).append(row.name);
    }
    return names;
}
/// These names as a message lists them: "h2o, knorm or keydiff".
template <class Has>
std::string policies_with(const Has& has) {
    std::string names = policy_names(has, ", ");
    const size_t last = names.rfind(',');
    return last == std::string::npos ? names : names.replace(last, 1, " or");
}

}  // namespace trireme
