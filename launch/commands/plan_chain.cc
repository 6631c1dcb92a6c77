#include "launch/commands/plan_chain.h"

#include <algorithm>

#include "decode/round_forecast.h"
#include "kernels/attention_cost.h"
#include "launch/flags/modes.h"
#include "launch/run/chain.h"
#include "launch/run/eviction.h"
#include "launch/run/part_memory.h"
#include "launch/run/spec_costs.h"
#include "launch/run/weight_type.h"
#include "offload/plan/step_forecast.h"

namespace trireme {

ChainPlan::ChainPlan(const Options& o, const LlamaConfig& config, const WeightFormat& weights,
                     const LevelOptions& level, std::string_view backend, int threads)
    : options_(o), config_(config), weights_(weights), backend_(backend), threads_(threads), level_(level) {
    if (o.spec.has(Part::kRetrieval)) retrieval_ = retrieval_shape(o, /*comes_back=*/o.side_by_side());
    const int64_t context = o.ctx_size == 0 ? config.context : o.ctx_size;
    heavy_ = proposing_shape(o, config, context, /*returns=*/o.side_by_side());
    require(!o.model_draft.empty() || !o.spec.has(Part::kDraft), Exit::kUsage,
            "--spec {}: no draft model; give -md PATH", text_of(o.spec));
    if (o.spec.has(Part::kDraft)) {
        draft_ = open_config(o.model_draft);
        draft_weights_ = planned_weight_type(o.model_draft, {}, o.activations, backend).format;
    }
    const size_t levels = o.spec.parts.size();
    require(o.accept_rates.empty() || o.accept_rates.size() == levels, Exit::kUsage,
            "--accept-rate: {} rates, and in --spec {} there are {} levels that check; want one of each, the whole "
            "model's first",
            o.accept_rates.size(), text_of(o.spec), levels);
    if (!o.spec_costs.empty() && levels > 0) costs_ = read_spec_costs(o.spec_costs, level_names(o));
}

MemoryBytes ChainPlan::proposing(const LevelOptions& level, const Shard& shard, bool retrieves) const {
    const PartModels models = {.target = config_,
                               .shard = shard,
                               .draft = draft_ ? &*draft_ : nullptr,
                               .target_weights = weights_,
                               .draft_weights = draft_weights_,
                               .level = level,
                               .backend = backend_,
                               .threads = threads_,
                               .draft_window = options_.draft_window};
    MemoryBytes all;
    for (const Part part : options_.spec.parts) {
        if (row_of(part).sees == PartRow::Sees::kRetrieved && !retrieves) continue;
        all += part_memory(part, models, draft_distributions(options_, part), level.sequences);
    }
    return all;
}

double ChainPlan::measured_gbps(const PlanInput& in) const {
    return costs_.empty() ? 0 : step_bytes(in, in.kv.context) / costs_.front().ms(1) * 1e-6;
}

/// The time of a level without measured costs: that of its reads or its products, whichever takes longer.
double ChainPlan::level_ms(const PlanInput& in, const Machine& machine, const Shard& shard, size_t part,
                           int64_t rows) const {
    const PartRow& row = row_of(options_.spec.parts[part]);
    const auto sees = [&]() -> int64_t {
        switch (row.sees) {
            case PartRow::Sees::kText:
                return 0;
            case PartRow::Sees::kWindow:
                return options_.draft_window;
            case PartRow::Sees::kHeavy:
                return heavy_.budget;
            case PartRow::Sees::kRetrieved:
                return retrieval_.pick(in.kv.context).slots(static_cast<int32_t>(retrieval_.chunk));
        }
        return 0;
    };
    if (!row.has_level()) return 0;
    const int64_t seen = std::min(in.kv.context, sees());
    if (row.model == PartRow::Model::kTarget) {
        const Machine m = for_rows(in, shard, machine, rows, seen);
        return step_bytes(in, seen) / m.device_gbps * 1e-6 + m.layer_ms * static_cast<double>(config_.n_layers);
    }
    const PlanInput own =
        plan_input(*draft_, make_shard(*draft_, 0, 1), draft_weights_, level_, backend_, threads_, PlanInput::kAll);
    return step_bytes(own, seen) / machine.device_gbps * 1e-6;
}

// Weights and KV are read once for all rows. Each takes the time of its bytes, or of its products.
Machine ChainPlan::for_rows(PlanInput in, const Shard& shard, const Machine& machine, int64_t rows,
                            int64_t length) const {
    const Options& o = options_;
    in.kv.sequences = std::min(in.kv.sequences, kMaxRows);  // more take several forwards
    Machine m = machine;
    const auto n = static_cast<double>(rows);
    if (o.device_tflops > 0 && m.device_gbps > 0) {
        const auto ms = [&](double bytes, double products) {
            return std::max(bytes / m.device_gbps * 1e-6, 2 * products / o.device_tflops * 1e-9);
        };
        const auto layers = static_cast<double>(in.reads.size()), slots = static_cast<double>(length);
        const int64_t texts = std::clamp<int64_t>(in.kv.sequences, 1, rows);
        const double attended = layers * slots * static_cast<double>(texts) *
                                attention_products(backend_, in.kv.layout, shard.n_heads, (rows + texts - 1) / texts);
        const auto weight_bytes = static_cast<double>(in.weight_bytes_per_step);
        const double bytes = step_bytes(in, length);
        const double step_ms =
            ms(weight_bytes, n * static_cast<double>(in.weights_per_step)) + ms(bytes - weight_bytes, attended);
        m.device_gbps = std::min(m.device_gbps, bytes / step_ms * 1e-6);
    }
    if (o.ranks > 1) {
        const double bytes = n * static_cast<double>(config_.dim) * sizeof(float);
        m.layer_ms = 2 * (o.reduce_us * 1e-3 + (o.reduce_gbps > 0 ? bytes / o.reduce_gbps * 1e-6 : 0));
    }
    return m;
}

std::vector<std::string> ChainPlan::round_lines(const PlanInput& in, const Shard& shard, const Plan& plan,
                                                const Machine& m, const std::vector<Plain>& plain) const {
    const Options& o = options_;
    const bool known = m.device_gbps > 0 && (plan.streamed_layers == 0 || m.link_gbps > 0);
    if (o.accept_rates.empty() || !known) return {};
    if (o.spec.tree) return {"rounds of trees are not forecast"};

    const size_t n = o.spec.parts.size();
    // Rows to verify form a chain: over layers that read later layers each row takes a pass.
    const auto of_rows = [&](int64_t rows) { return with_passes(in, config_, shard, weights_, rows); };
    const auto part_ms = [&](size_t part, int64_t rows) {
        if (!costs_.empty() && row_of(o.spec.parts[part]).has_level()) return costs_[n - part].ms(rows);
        return level_ms(of_rows(rows), m, shard, part, rows);
    };
    std::vector<CheckingLevel> checks;  // the full model verifies the last part
    for (size_t level = 0; level < n; ++level) {
        CheckingLevel checking = {.name = level == 0 ? "full" : std::string(name_of(o.spec.parts[n - level])),
                                  .alpha = o.accept_rates[level],
                                  .gamma = fixed_gamma(o, n - 1 - level),
                                  .ms = {}};
        if (level > 0) checking.ms = [&, level](int64_t rows) { return part_ms(n - level, rows); };
        checks.push_back(std::move(checking));
    }
    // The time of a verify with `rows` rows. The device's rate is set so that the step takes the measured time on chip.
    const auto round_ms = [&](int64_t rows, double draft_ms) {
        const PlanInput step = of_rows(rows);
        Machine at = for_rows(step, shard, m, rows, in.kv.context);
        if (!costs_.empty()) {  // measured costs include the all-reduces
            at.device_gbps = step_bytes(step, in.kv.context) / costs_.front().ms(rows) * 1e-6;
            at.layer_ms = 0;
        }
        return forecast(step, plan, at, in.kv.context, draft_ms).step_ms;
    };
    const RoundForecast f = forecast_round(checks, part_ms(0, 1), round_ms);

    std::vector<std::string> lines = {fmt::format("a round of {}:", text_of(o.spec))};
    const std::string_view first = name_of(o.spec.parts.front());
    lines.push_back(fmt::format("  {:<12} {:>8.2f} tokens", first, f.drafted));
    for (size_t i = f.levels.size(); i-- > 0;) {
        const RoundForecast::Level& level = f.levels[i];
        lines.push_back(fmt::format("  {:<12} {:>8.2f} forward{}, drafts of {} token{}, {} accepted", level.name,
                                    level.forwards, level.forwards == 1 ? "" : "s", level.gamma,
                                    level.gamma == 1 ? "" : "s", checks[i].alpha));
    }
    lines.push_back(fmt::format("  {:.2f} ms (draft_ms {:.2f}, verify_ms {:.2f}) for {:.2f} tokens", f.round_ms,
                                f.draft_ms, f.round_ms - f.draft_ms, f.tokens));
    lines.push_back(fmt::format("  {:.2f} ms per token ({:.2f} tok/s)", f.token_ms(), 1e3 / f.token_ms()));
    for (const Plain& p : plain) {
        lines.push_back(fmt::format("  {:.2f} times {}: plain decoding, {} layers on chip, {:.2f} ms per token",
                                    p.step_ms / f.token_ms(), p.name, p.on_chip, p.step_ms));
    }
    return lines;
}

}  // namespace trireme
