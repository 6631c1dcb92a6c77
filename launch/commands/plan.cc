#include <algorithm>
#include <functional>
#include <unistd.h>

#include "launch/commands/commands.h"
#include "launch/commands/plan_chain.h"
#include "launch/commands/plan_changes.h"
#include "launch/report/output.h"
#include "launch/run/eviction.h"
#include "launch/run/kv_wire.h"
#include "launch/run/plan_lines.h"
#include "launch/run/residency.h"
#include "launch/run/side_by_side.h"
#include "launch/run/weight_type.h"
#include "model/checkpoint/layer_sharing.h"
#include "model/checkpoint/weight_source.h"
#include "offload/plan/step_forecast.h"
#include "runtime/log.h"
#include "runtime/module.h"

namespace trireme {
namespace {

/// Returns the layers whose keys and values are on chip, as "1-3, 7".
std::string ranges(const PlanInput& in, const std::vector<bool>& on_chip) {
    std::string text;
    for (OwnerIndex i; i.at() < on_chip.size(); ++i) {
        if (!on_chip[i.at()]) continue;
        OwnerIndex last = i;
        const auto next_layer = [&] { return layer_of(in, OwnerIndex(last.i + 1)).i; };
        while (last.at() + 1 < on_chip.size() && on_chip[last.at() + 1] && next_layer() == layer_of(in, last).i + 1)
            ++last;
        text += fmt::format("{}{}", text.empty() ? "" : ", ", layer_of(in, i));
        if (last > i) text += fmt::format("-{}", layer_of(in, last));
        i = last;
    }
    return text.empty() ? "none" : text;
}

/// The machine that flags describe. With --device-memory it is another machine, whose host memory is unlimited unless
/// given. Otherwise memory is that of this machine and of its --device, divided among the ranks.
Machine described(const Options& o, std::string_view backend) {
    const double share = o.host_gbps > 0 ? o.host_gbps / static_cast<double>(o.ranks) : o.link.gbps;
    Machine m = {.device_memory = static_cast<size_t>(o.device_memory),
                 .host_memory = static_cast<size_t>(o.host_memory)};
    if (o.device_memory > 0) {
        if (o.host_memory == 0) m.host_memory = SIZE_MAX;
    } else {
        const bool card = backend == "cuda";
        if (card) load_cuda_module();
        m = own_machine(o, *open_device(card ? o.device : "cpu", {.local_ranks = static_cast<int>(o.ranks)}));
        // Device and host share one memory only on this machine's CPU, and only if no flag limits it.
        if (card || o.host_memory > 0) m.together = SIZE_MAX;
    }
    m.device_gbps = o.device_gbps;
    m.link_gbps = std::min(o.link.gbps, share);
    m.link_us = o.link.us;
    return m;
}

std::vector<std::string> times(const PlanInput& in, const Plan& plan, const Machine& m, const EvictionShape& eviction) {
    if (m.device_gbps == 0 || (plan.streamed_layers > 0 && m.link_gbps == 0)) {
        return {"a decode step: say --device-gbps and --link-gbps for its time"};
    }
    const StepForecast f =
        forecast(in, plan, m, eviction.evicts() ? std::min(eviction.budget, in.kv.context) : in.kv.context);
    const int64_t texts = in.kv.sequences;
    return {fmt::format("a decode step{} at context length {}: {:.2f} ms ({:.2f} tok/s)",
                        texts > 1 ? fmt::format(" of {} texts", texts) : "", in.kv.context, f.step_ms,
                        1e3 * static_cast<double>(texts) / f.step_ms),
            fmt::format("  compute                  {:>10.2f} ms", f.compute_ms),
            fmt::format("  link                     {:>10.2f} ms  {:.3f} GB a rank", f.copy_ms,
                        static_cast<double>(f.h2d_bytes) * 1e-9)};
}

std::vector<std::string> total_lines(const Plan& plan, int64_t ranks) {
    const MemoryBytes all = plan.total();
    const auto n = static_cast<size_t>(ranks);
    if (n == 1) return {};
    return {fmt::format("all {} ranks: device {:.3f} GiB, host {:.3f} GiB pinned", n, gib(n * all.device),
                        gib(n * all.host))};
}

/// The time of a prefill: products and attention of all rows, or the copies of streamed layers to the host.
std::vector<std::string> prefill_lines(const Options& o, const LlamaConfig& config, const Shard& shard,
                                       const PlanInput& in, const Plan& plan, const Machine& m) {
    if (o.device_tflops == 0) return {"a prefill: give --device-tflops for its time"};
    const auto n = static_cast<double>(in.kv.context), layers = static_cast<double>(config.n_layers);
    const double products = 2 * n * static_cast<double>(in.weights_per_step);
    const double attention = 2 * n * n * layers * static_cast<double>(shard.n_heads * config.head_dim);
    const double compute = (products + attention) / o.device_tflops * 1e-12;
    const double copies = m.link_gbps > 0 ? static_cast<double>(plan.kv.host) / m.link_gbps * 1e-9 : 0;
    const double reduced = n * static_cast<double>(config.dim) * sizeof(float);
    const double sums = o.ranks > 1 && o.reduce_gbps > 0 ? 2 * layers * reduced / o.reduce_gbps * 1e-9 : 0;
    std::string text = fmt::format("a prefill of {} tokens: {:.1f} s, of which compute {:.1f} s", in.kv.context,
                                   std::max(compute, copies) + sums, compute);
    if (copies > 0) text += fmt::format(", copies to the host meanwhile {:.1f} s", copies);
    if (sums > 0) text += fmt::format(", all-reduces {:.1f} s", sums);
    return {text};
}

/// Plain decode steps on the same machine: with all layers on chip that fit, and with those of each none@N of --modes.
std::vector<ChainPlan::Plain> plain_steps(const Options& o, const std::function<PlanInput(int64_t)>& input_for,
                                          const Machine& m, const std::function<Machine(const PlanInput&)>& for_row) {
    std::vector<ChainPlan::Plain> all;
    const auto add = [&](std::string name, int64_t on_chip) {
        const PlanInput in = input_for(on_chip);
        const Plan plan = make_plan(in, m);
        const bool known = m.device_gbps > 0 && (plan.streamed_layers == 0 || m.link_gbps > 0);
        if (!plan.fits(m) || !known) return;
        all.push_back({std::move(name), plan.on_chip_layers, forecast(in, plan, for_row(in), in.kv.context).step_ms});
    };
    add("none@auto", PlanInput::kAuto);
    for (const Mode& mode : o.modes) {
        const bool fixed = mode.chain == "none" && mode.policy == KvPolicy::kFull && mode.kv_on_chip.value_or(-1) >= 0;
        if (fixed) add(mode.name, *mode.kv_on_chip);
    }
    return all;
}

std::string lacking(const Shortage& s) {
    if (s.together > s.device + s.host)
        return fmt::format("{:.3f} GiB of memory: device and host are one", gib(s.together));
    std::string text = s.device > 0 ? fmt::format("{:.3f} GiB of device memory", gib(s.device)) : "";
    if (s.host > 0) text += fmt::format("{}{:.3f} GiB of host memory", text.empty() ? "" : " and ", gib(s.host));
    return text;
}

/// Adds the device memory and the host memory with which the run would fit, if more of that memory alone suffices.
void add_memory(const PlanInput& in, const Machine& m, std::vector<std::string>& changes) {
    const auto add = [&](const char* flag, size_t Machine::*which) {
        const size_t enough = least_memory(in, m, which);
        if (enough == 0) return;
        changes.push_back(
            fmt::format("{} {}: {:.3f} GiB more of each rank's", flag, as_size(enough), gib(enough - m.*which)));
    };
    add("--device-memory", &Machine::device_memory);
    add("--host-memory", &Machine::host_memory);
}

}  // namespace

void run_plan(const Start& start, const RankGroup& rank_group) {
    Options o = start.call.options;
    if (o.ranks == 0) o.ranks = o.tensor_parallel > 0 ? o.tensor_parallel : rank_group.comm().size();
    rank_group.first_only([&] {
        check_link(o);
        LlamaConfig config = open_config(o.model);
        if (!o.layer_map.empty()) set_layer_map(config, o.layer_map, "the layer map");
        config.sliding_window += o.wide_window ? 1 : 0;
        if (o.ctx_size > config.context) {
            log::warn("-c {}: a plan alone: the model's own context is {} tokens", o.ctx_size, config.context);
        }
        const std::string_view backend = o.device.starts_with("cuda") ? "cuda" : "cpu";
        const WeightType weights = planned_weight_type(o.model, o.dtype, o.activations, backend);
        const int threads = static_cast<int>(std::max<int64_t>(1, o.threads));
        require_kv_types(o, config.head_dim);
        const LevelOptions options = {
            .k_type = o.cache_type_k,
            .v_type = o.cache_type_v,
            .residency = {.ring = o.kv_ring, .coded = choose_kv_wire(o, config.head_dim, backend).coded}};
        const EvictionShape eviction =
            eviction_shape(o, config, o.ctx_size == 0 ? config.context : o.ctx_size, /*returns=*/o.side_by_side());
        const ChainPlan chain(o, config, weights.format, options, backend, threads);
        require_side_by_side(o);
        PlanWish wish = {.context = o.ctx_size == 0 ? config.context : o.ctx_size,
                         .ranks = o.ranks,
                         .texts = o.parallel.front(),
                         .on_chip = o.kv_on_chip,
                         .retrieval = chain.retrieval()};
        const auto input_for = [&](const PlanWish& w) {
            LevelOptions with = options;
            with.context = w.context;
            with.sequences = w.texts;
            if (w.texts > 1 && !eviction.evicts()) with.common = common_tokens(o.prefill, w.context);
            const Shard shard = largest_shard(config, static_cast<int>(w.ranks));
            PlanInput in = plan_input(config, shard, weights.format, with, backend, threads, w.on_chip);
            plan_evicting(in, config, shard, eviction, backend, threads);
            plan_proposing(in, config, shard, chain.heavy(), backend, threads);
            in.retrieval = w.retrieval;
            in.retrieval.query_columns = shard.n_heads * config.head_dim;
            in.proposing = chain.proposing(with, shard, w.retrieval.budget > 0);
            return in;
        };
        Machine m = described(o, backend);
        if (wish.texts == Options::kMostParallel) {
            wish.on_chip = layers_beside_texts(wish.on_chip);
            wish.texts = std::max<int64_t>(1, most_texts(wish, input_for, m, Options::kParallelLimit));
        }
        const PlanInput in = input_for(wish);
        if (m.device_gbps == 0) m.device_gbps = chain.measured_gbps(in);
        const Plan plan = make_plan(in, m);
        std::string text = fmt::format("{} tokens, {} rank{}, {} weights ({}), {}/{} keys and values{}: each rank\n",
                                       wish.context, o.ranks, o.ranks == 1 ? "" : "s", weights.name, weights.reason,
                                       name_of(o.cache_type_k), name_of(o.cache_type_v), kv_lossy(o) ? " (lossy)" : "");
        if (o.side_by_side()) {
            text += fmt::format("{} parallel sequences that share {} tokens\n", wish.texts, in.kv.common);
        }
        for (const std::string& line : plan_lines(in, plan, m)) text += line + "\n";
        text += fmt::format("layers on chip: {}\n", ranges(in, plan.on_chip));
        if (eviction.evicts()) text += describe(eviction, config) + "\n";
        if (chain.heavy().evicts()) text += describe(chain.heavy(), config, "--spec") + "\n";
        const auto add = [&](const std::vector<std::string>& lines) {
            for (const std::string& line : lines) text += line + "\n";
        };
        const Shard shard = largest_shard(config, static_cast<int>(o.ranks));
        // A step of several sequences has one row of each.
        const auto a_step = [&](const PlanInput& of) {
            return chain.for_rows(of, shard, m, std::min(wish.texts, kMaxRows), of.kv.context);
        };
        add(total_lines(plan, o.ranks));
        add(prefill_lines(o, config, shard, in, plan, m));
        add(times(in, plan, a_step(in), eviction));
        const auto plain_input = [&](int64_t on_chip) {
            LevelOptions with = options;
            with.context = wish.context;
            return plan_input(config, shard, weights.format, with, backend, threads, on_chip);
        };
        add(chain.round_lines(in, shard, plan, m, plain_steps(o, plain_input, m, a_step)));
        if (!plan.fits(m)) {
            std::vector<std::string> changes = changes_that_fit(wish, input_for, m, config.n_heads);
            add_memory(in, m, changes);
            text += fmt::format("the closest plan lacks {}\n", lacking(plan.shortage(m)));
            text +=
                changes.empty() ? "does not fit, and no single change helps\n" : "does not fit; it would with one of\n";
            for (const std::string& line : changes) text += "  " + line + "\n";
        }
        TextOut(STDOUT_FILENO).write(text);
        if (plan.fits(m)) return;
        const Machine any = {.device_memory = SIZE_MAX, .host_memory = SIZE_MAX};
        refuse_plan(in, m, any, wish.context, largest_context(wish, input_for, m), o);
    });
}

}  // namespace trireme
