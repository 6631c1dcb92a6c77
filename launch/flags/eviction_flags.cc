// The flags of KV cache eviction: which tokens a KV head retains, and how many.

#include <algorithm>
#include <array>

#include "launch/flags/flag_groups.h"
#include "runtime/index.h"

namespace trireme {
namespace {

using O = Options;
using S = Setting;

KvPolicy read_policy(const S& s) {
    std::array<std::string_view, kPolicies.size()> names;
    std::ranges::transform(kPolicies, names.begin(), &PolicyRow::name);
    return static_cast<KvPolicy>(s.one_of(names));
}

/// "full: no eviction. h2o: ..."
std::string all_meanings() {
    std::string all = "KV eviction policy, applied after the prompt and each step.";
    for (const PolicyRow& row : kPolicies) all += fmt::format(" {}: {}.", row.name, row.meaning);
    all.pop_back();
    return all;
}

/// "streaming 4, expected 4, others 0"
std::string default_sinks() {
    std::string all;
    for (const PolicyRow& row : kPolicies) {
        if (row.sinks > 0) all += fmt::format("{} {}, ", row.name, row.sinks);
    }
    return all + "others 0";
}

void set_window(O& o, const S& s) {
    o.eviction.budget_share = 0;
    if (s.text.find('.') == std::string::npos) {
        o.eviction.budget = s.integer(2, kMostTokens, ", or a share of the prompt below 1");
    } else {
        o.eviction.budget_share = s.real(0.001, 1);
    }
}

std::string shown_window(const O& o) {
    if (o.eviction.budget_share == 0) return o.eviction.budget == 0 ? std::string() : shown(o.eviction.budget);
    return o.eviction.budget_share == 1 ? "1.0" : shown(o.eviction.budget_share);
}

}  // namespace

FlagGroup eviction_flags() {
    const auto divided = [](const PolicyRow& r) { return r.recent == RecentBy::kDivided; };
    const auto observing = [](const PolicyRow& r) { return r.queries == QueriesBy::kObserved; };
    const auto smoothed = [&](const PolicyRow& r) { return observing(r) && !r.expects; };
    const auto one_set = [](const PolicyRow& r) { return r.queries != QueriesBy::kNone && !r.shares; };
    // Flags refer to these.
    static const std::string policies = policy_names([](const PolicyRow&) { return true; }, "|");
    static const std::string meanings = all_meanings();
    static const std::string heavy =
        policy_names(divided, ", ") +
        ": tokens of the budget that are selected by score; the others are the most recent. -1: half";
    static const std::string sinks = default_sinks();
    static const std::string share = policy_names(one_set, ", ") +
                                     ", --spec h2o: layer: all KV heads of a layer retain the same tokens, by their "
                                     "mean score; head: each KV head has its own set";
    static const std::string observe =
        policy_names(observing, ", ") + ": recent tokens whose queries score the others; always retained, at most 512";
    static const std::string pool = policy_names(smoothed, ", ") + ": smoothing width for scores (odd)";
    static const std::string every = policy_names(observing, ", ") + ": steps between two re-scorings";
    return {"Bounded KV",
            {
                {"kv-policy",
                 {"--kv-policy"},
                 kContinue | kScore | kPlan,
                 policies,
                 meanings,
                 [](O& o, const S& s) { o.eviction.policy = read_policy(s); },
                 [](const O& o) { return std::string(name_of(o.eviction.policy)); }},
                {"h2o",
                 {"--h2o", "--enable_h2o_generation", "--enable_h2o_cache"},
                 kContinue | kScore | kPlan,
                 "",
                 "same as --kv-policy h2o",
                 [](O& o, const S& s) {
                     if (s.on()) o.eviction.policy = KvPolicy::kH2o;
                 },
                 [](const O& o) { return on_off(o.eviction.policy == KvPolicy::kH2o); }},
                {"kv-window",
                 {"--kv-window", "--num_window_length"},
                 kShaped,
                 "TOKENS",
                 "cache budget: tokens that each KV head retains. A number with a decimal point is a share of "
                 "the prompt",
                 set_window,
                 shown_window,
                 "256; 1024 with --spec h2o"},
                {"kv-heavy",
                 {"--kv-heavy", "--num_heavy_hitter_tokens"},
                 kShaped,
                 "TOKENS",
                 heavy,
                 [](O& o, const S& s) { o.eviction.heavy = s.integer(-1, kMostTokens); },
                 [](const O& o) { return shown(o.eviction.heavy); }},
                {"kv-sinks",
                 {"--kv-sinks", "--num-sink-tokens"},
                 kShaped,
                 "TOKENS",
                 "first tokens that are always retained; they count towards the selected ones",
                 [](O& o, const S& s) { o.eviction.sinks = s.integer(0, kMostTokens); },
                 [](const O& o) { return o.eviction.sinks < 0 ? std::string() : shown(o.eviction.sinks); },
                 sinks},
                {"kv-positions",
                 {"--kv-positions"},
                 kShaped,
                 "true|rolling",
                 "RoPE positions: true: in the sequence; rolling: among retained tokens, so sequences may exceed "
                 "the model's context",
                 [](O& o, const S& s) {
                     o.eviction.rolling = s.one_of({"true", "rolling"}) == 1;
                 },
                 [](const O& o) { return std::string(o.eviction.rolling ? "rolling" : "true"); }},
                {"kv-rolling",
                 {"--kv-rolling", "--enable_position_rolling"},
                 kShaped,
                 "",
                 "same as --kv-positions rolling",
                 [](O& o, const S& s) {
                     if (s.on()) o.eviction.rolling = true;
                 },
                 [](const O& o) { return on_off(o.eviction.rolling); }},
                {"kv-gqa",
                 {"--kv-gqa"},
                 kShaped,
                 "first|mean|sum|max",
                 "how scores of query heads that share a KV head are combined; first: the first head only, as in "
                 "H2O's code",
                 [](O& o, const S& s) {
                     o.eviction.heads = static_cast<HeadsBy>(s.one_of({"first", "mean", "sum", "max"}));
                 },
                 [](const O& o) {
                     constexpr std::string_view names[] = {"first", "mean", "sum", "max"};
                     return std::string(names[index(o.eviction.heads)]);
                 }},
                {"kv-heads-share",
                 {"--kv-heads-share"},
                 kShaped,
                 "layer|head",
                 share,
                 [](O& o, const S& s) {
                     o.eviction.one_set = s.one_of({"layer", "head"}) == 0;
                 },
                 [](const O& o) {
                     const std::optional<bool>& one = o.eviction.one_set;
                     return std::string(!one ? "" : *one ? "layer" : "head");
                 },
                 "layer with tova, else head"},
                {"kv-score-dtype",
                 {"--kv-score-dtype"},
                 kShaped,
                 "f32|f16",
                 "type of the scores; f16 is what H2O's code uses, where sums stop growing",
                 [](O& o, const S& s) {
                     o.eviction.half_scores = s.one_of({"f32", "f16"}) == 1;
                 },
                 [](const O& o) { return std::string(o.eviction.half_scores ? "f16" : "f32"); }},
                {"kv-decay",
                 {"--kv-decay"},
                 kShaped,
                 "FACTOR",
                 "h2o: decay of accumulated scores per new query; a prompt is one call",
                 [](O& o, const S& s) { o.eviction.decay = s.real_above(0, 1); },
                 [](const O& o) { return shown(o.eviction.decay); }},
                {"kv-normalise",
                 {"--kv-normalise", "--kv-normalize"},
                 kShaped,
                 "",
                 "h2o: compare scores divided by the number of queries that saw the token",
                 [](O& o, const S& s) { o.eviction.normalise = s.on(); },
                 [](const O& o) { return on_off(o.eviction.normalise); }},
                {"kv-observe",
                 {"--kv-observe"},
                 kShaped,
                 "TOKENS",
                 observe,
                 [](O& o, const S& s) { o.eviction.observe = s.integer(1, kPrefillRows); },
                 [](const O& o) { return shown(o.eviction.observe); }},
                {"kv-pool",
                 {"--kv-pool"},
                 kShaped,
                 "TOKENS",
                 pool,
                 [](O& o, const S& s) { o.eviction.pool = s.integer(1, 1023); },
                 [](const O& o) { return shown(o.eviction.pool); }},
                {"kv-every",
                 {"--kv-every"},
                 kShaped,
                 "STEPS",
                 every,
                 [](O& o, const S& s) { o.eviction.every = s.integer(1, kMostTokens); },
                 [](const O& o) { return shown(o.eviction.every); }},
                {"kv-chunk",
                 {"--kv-chunk"},
                 kShaped,
                 "TOKENS",
                 "read the prompt in chunks, evicting after each one, so memory is bounded; 0: in one, which is "
                 "exact",
                 [](O& o, const S& s) { o.eviction.chunk = s.integer(0, kMostTokens); },
                 [](const O& o) { return shown(o.eviction.chunk); }},
                {"kv-dump",
                 {"--kv-dump"},
                 kGenerate,
                 "FILE",
                 "write what each KV head retains after the prompt and each step, or the chunks that --spec retrieval "
                 "and triforce select in each round, as JSON Lines; held in memory until the end",
                 [](O& o, const S& s) { o.kv_dump = s.word(); },
                 [](const O& o) { return o.kv_dump; },
                 "none"},
            }};
}

}  // namespace trireme
