#include "launch/run/eviction.h"

#include <algorithm>
#include <cmath>

#include "model/evicting_kv.h"
#include "model/footprint.h"
#include "runtime/error.h"
#include "runtime/log.h"

namespace trireme {
namespace {

/// The fewest recent tokens that the policy retains.
int64_t least_recent(const EvictionShape& s) {
    return row_of(s.policy).recent == RecentBy::kSinks ? 1 : s.recent();
}

/// The most sinks that every owner has slots for, in addition to the recent tokens.
int64_t sink_places(const EvictionShape& s, int64_t owners) {
    // A pyramid's last layer has the smallest budget.
    return s.budget_of(OwnerIndex(owners - 1), owners) - least_recent(s);
}

/// `flag` names the flag that requests the policy, for messages.
EvictionShape shape_of(const Options& o, KvPolicy policy, int64_t budget, const char* flag, const LlamaConfig& config,
                       int64_t prompt_tokens, bool returns) {
    const EvictionOptions& b = o.eviction;
    const int64_t share = static_cast<int64_t>(std::ceil(b.budget_share * static_cast<double>(prompt_tokens)));
    EvictionShape shape = {.policy = policy,
                           .budget = b.budget_share > 0 ? std::max<int64_t>(2, share) : b.budget_or(budget),
                           .sinks = b.sinks,
                           .rolling = b.rolling,
                           .heads = b.heads,
                           .one_set = b.keeps_one_set(policy),
                           .half_scores = b.half_scores,
                           .per_query = b.normalise,
                           .decay = static_cast<float>(b.decay),
                           .observe = b.observe,
                           .pool = b.pool,
                           .every = b.every,
                           .chunk = std::min(b.chunk, std::max<int64_t>(1, prompt_tokens)),
                           .prompt = prompt_tokens,
                           .turns = o.prompt_from == PromptFrom::kSession,
                           .seed = static_cast<uint32_t>(o.seed.value_or(0)),
                           .returns = returns};
    require(!shape.one_set || shape.may_keep_one_set(), Exit::kUsage,
            "--kv-heads-share layer with {} {}: its heads have no common scores; want head, or --kv-policy {}", flag,
            name_of(policy),
            policies_with([](const PolicyRow& r) { return r.queries != QueriesBy::kNone && !r.shares; }));
    shape.heavy = b.heavy < 0 ? shape.budget / 2 : b.heavy;
    if (b.sinks < 0) {  // a default yields to a small budget
        const int64_t places = sink_places(shape, config.layer_map.owners());
        shape.sinks = std::clamp<int64_t>(places, 0, row_of(policy).sinks);
    }
    try {
        check_eviction(shape, config.layer_map.owners());
    } catch (const Error& e) {
        if (b.budget_share <= 0) throw;
        fail(e.code(), "--kv-window {} is {} tokens of a prompt of {}, too few: {}", b.budget_share, shape.budget,
             prompt_tokens, e.what());
    }
    for (LayerIndex l; l.i < config.n_layers; ++l) {
        require(!config.layer_map.windowed(l), Exit::kData,
                "{}: layer {} has a sliding window of {} tokens that {} {} cannot apply: retained tokens are not in "
                "order; use the "
                "full KV cache",
                o.model, l, config.sliding_window, flag, name_of(policy));
    }
    return shape;
}

}  // namespace

void check_eviction(const EvictionShape& s, int64_t owners) {
    if (!s.evicts()) return;
    const auto name = name_of(s.policy);
    require(s.budget >= 2, Exit::kConfig, "--kv-window {}: {} keeps 2 tokens or more", s.budget, name);
    require(!s.divided() || s.heavy < s.budget, Exit::kConfig,
            "--kv-heavy {}: no place is left for recent tokens among {} (--kv-window); want fewer", s.heavy, s.budget);
    require(!s.observing() || s.observe < s.budget, Exit::kConfig,
            "--kv-observe {}: {} keeps {} tokens (--kv-window), and all of the queries observed; want fewer", s.observe,
            name, s.budget);
    const int64_t places = sink_places(s, owners);
    require(s.sinks <= places, Exit::kConfig,
            "--kv-sinks {}: {} has {} slots for them in every layer with {} recent tokens (--kv-window {}); want no "
            "more",
            s.sinks, name, places, least_recent(s), s.budget);
    require(s.pool % 2 == 1, Exit::kConfig, "--kv-pool {}: want an odd number of neighbours", s.pool);
}

EvictionShape eviction_shape(const Options& o, const LlamaConfig& config, int64_t prompt_tokens, bool returns) {
    const KvPolicy policy = o.eviction.policy;
    if (policy == KvPolicy::kFull) return {};
    require(o.spec.parts.empty(), Exit::kUsage,
            "--kv-policy {} with --spec {}: a chain verifies with the full KV cache; want "
            "one of them",
            name_of(policy), text_of(o.spec));
    return shape_of(o, policy, EvictionOptions::kBudget, "--kv-policy", config, prompt_tokens, returns);
}

EvictionShape proposing_shape(const Options& o, const LlamaConfig& config, int64_t prompt_tokens, bool returns) {
    if (!o.spec.has(Part::kH2o)) return {};
    require(!o.eviction.rolling, Exit::kUsage,
            "--kv-positions rolling with --spec {}: heavy hitters draft for tokens where they "
            "stand in the text; want true positions",
            text_of(o.spec));
    return shape_of(o, KvPolicy::kH2o, EvictionOptions::kProposingBudget, "--spec", config, prompt_tokens, returns);
}

std::string describe(const EvictionShape& s, const LlamaConfig& config, std::string_view what) {
    const int64_t owners = config.layer_map.owners();
    std::string text = fmt::format("{} {}: {} tokens a head", what, name_of(s.policy), s.budget);
    if (row_of(s.policy).pyramid) {
        text += fmt::format(", from {} in the first layer to {} in the last", s.budget_of(OwnerIndex(0), owners),
                            s.budget_of(OwnerIndex(owners - 1), owners));
    }
    if (s.shares()) {
        text += fmt::format(" in the mean of a layer's, at least {}", s.share().least + s.recent());
    }
    text += fmt::format(", {} of them the most recent", s.recent());
    if (s.one_set) text += ", the same in all heads of a layer";
    if (s.sinks > 0) text += fmt::format(", {} the first of the text", s.sinks);
    text += s.rolling ? ", positions rolling" : ", true positions";
    if (s.chunk > 0) text += fmt::format(", texts read in chunks of {}", s.chunk);
    return text;
}

int64_t prompt_to_load(const Options& o, int64_t prompt_tokens, int64_t longest) {
    const bool share = o.eviction.policy != KvPolicy::kFull && o.eviction.budget_share > 0;
    // PyramidKV's first layer retains up to twice the budget, and no more than the prompt.
    const bool short_of =
        row_of(o.eviction.policy).pyramid && prompt_tokens < 2 * o.eviction.budget_or(EvictionOptions::kBudget);
    return share || short_of ? prompt_tokens : longest;
}

void warn_of_unused_eviction(const Options& o, const EvictionShape& shape, int64_t text) {
    const EvictionOptions fresh, &b = o.eviction;
    const auto unless = [&](bool given, const char* flag, const std::string& reader, bool reads) {
        if (given && !reads) log::warn("{} has no effect here: only {} reads it", flag, reader);
    };
    const bool any = shape.evicts(), h2o = shape.policy == KvPolicy::kH2o;
    const bool all = any && o.eviction.policy != KvPolicy::kFull;  // the model's own cache evicts, not a chain's set
    const std::string policy_only = "a --kv-policy other than full", kept = policy_only + ", or --spec h2o";
    const auto one_of = [](const auto& has) { return "--kv-policy " + policies_with(has); };
    const std::string smoothed =
        one_of([](const PolicyRow& r) { return r.queries == QueriesBy::kObserved && !r.expects; });
    const std::string observing = one_of([](const PolicyRow& r) { return r.queries == QueriesBy::kObserved; });
    const std::string summed =
        one_of([](const PolicyRow& r) { return SlotRule{.by = r.by}.counts_all(); }) + ", or --spec h2o";
    const std::string divided =
        one_of([](const PolicyRow& r) { return r.recent == RecentBy::kDivided; }) + ", or --spec h2o";
    const std::string one_set =
        one_of([](const PolicyRow& r) { return r.queries != QueriesBy::kNone && !r.shares; }) + ", or --spec h2o";
    unless(b.budget != fresh.budget || b.budget_share > 0, "--kv-window", kept, any);
    unless(b.heavy != fresh.heavy, "--kv-heavy", divided, shape.divided());
    unless(b.sinks != fresh.sinks, "--kv-sinks", kept, any);
    unless(b.rolling, "--kv-positions rolling", policy_only, all);
    unless(b.heads != fresh.heads, "--kv-gqa", "a --kv-policy whose scores are attention, or --spec h2o",
           shape.attentive());
    unless(b.one_set.has_value(), "--kv-heads-share", one_set, shape.may_keep_one_set());
    unless(b.half_scores, "--kv-score-dtype", summed, shape.rule().counts_all());
    unless(b.decay != fresh.decay, "--kv-decay", "--kv-policy or --spec h2o", h2o);
    unless(b.normalise, "--kv-normalise", "--kv-policy or --spec h2o", h2o);
    unless(b.observe != fresh.observe, "--kv-observe", observing, shape.observing());
    unless(b.pool != fresh.pool, "--kv-pool", smoothed, shape.observing() && !shape.expects());
    unless(b.every != fresh.every, "--kv-every", observing, shape.observing());
    unless(b.chunk != fresh.chunk, "--kv-chunk", policy_only, all);
    unless(all && o.kv_on_chip >= 0, "--kv-on-chip", "--kv-policy full", !all);
    if (any && shape.budget >= text) {
        log::warn("--kv-window {}: the whole text of {} tokens is kept, nothing is ever evicted", shape.budget, text);
    }
}

void plan_evicting(PlanInput& in, const LlamaConfig& config, const Shard& shard, const EvictionShape& shape,
                   std::string_view backend, int threads) {
    if (!shape.evicts()) return;
    const int64_t rows = std::min(shape.chunk > 0 ? shape.chunk : shape.prompt, in.kv.context);
    in.work = in.work - FullCache::table_memory(in.kv);
    in.hidden_on_device = hidden_memory(config, rows, /*on_host=*/false);
    in.prompt_batches = BatchMaker::memory(config.head_dim, kPrefillRows, prefill_batches(rows)) -
                        BatchMaker::memory(config.head_dim, kPrefillRows, 1);
    in.evicting = evicting_memory(config, shard, in.kv, shape, backend, threads);
}

void plan_proposing(PlanInput& in, const LlamaConfig& config, const Shard& shard, const EvictionShape& shape,
                    std::string_view backend, int threads) {
    if (!shape.evicts()) return;
    in.heavy = in.kv.sequences * heavy_memory(config, shard, one_sequence(in.kv), shape, backend, threads);
}

}  // namespace trireme
