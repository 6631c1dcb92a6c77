#include "launch/commands/bench_runs.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <tuple>

#include "decode/generate.h"
#include "decode/plain.h"
#include "launch/flags/modes.h"
#include "launch/run/agreed_status.h"
#include "launch/run/chain.h"
#include "launch/run/decode_run.h"
#include "launch/run/progress.h"
#include "launch/run/signals.h"
#include "runtime/log.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

double allreduce_ms() {
    return static_cast<double>(trace::total("all_reduce").ns) * 1e-6;
}

/// Measures the modes of one residency on one level.
class Group {
  public:
    /// `results` are those of the modes in `start`, in order.
    Group(const Start& start, const RankGroup& rank_group, Engine& engine, int64_t n, int64_t parallel,
          std::vector<BenchResult*> results, RunLog& log)
        : options_(start.call.options),
          rank_group_(rank_group),
          engine_(engine),
          parallel_(parallel),
          results_(std::move(results)),
          log_(log) {
        request_.max_new = n;
        request_.num_samples = parallel;
        // All chains exist before the prompt is read, so that observers of the target's tiles see it.
        rank_group.phase([&] {
            for (const Options& o : chains_of(Command::kBench, options_)) {
                chains_.push_back(std::make_unique<Chains>(o, engine.model(), engine.proposing(), engine.device(),
                                                           SpecCosts(), parallel));
            }
        });
    }

    /// Returns 0 or the status of a signal. `first`: there are no results yet, so a signal may end the process.
    int measure(const BenchTexts& texts, bool first) {
        texts_ = texts.ids.size();
        try {
            for (size_t t = 0; t < texts.ids.size() && run_.status() == 0; ++t) {
                request_.prompt = texts.ids[t];
                read(t, texts.ids.size(), first && t == 0);
                if (t == 0) warm_up();
                if (first && t == 0) remember_signals();
                for (int64_t r = 0; r < options_.repetitions && run_.status() == 0; ++r) {
                    for (size_t m = 0; m < chains_.size() && run_.status() == 0; ++m) run(m, t, r);
                }
            }
        } catch (const Interrupted&) {
        }
        for (size_t m = 0; m < chains_.size(); ++m) finish(m);
        return run_.status();
    }

  private:
    void read(size_t text, size_t of, bool first) {
        ProgressMeter meter("prefill", "tokens", sink_);
        Plain reader(engine_.model(), options_.sampling, options_.seed.value());
        read_prompt(reader, request_, prefilled_, [&](int64_t done, int64_t total) {
            meter(done, total);
            if (!first) run_.prefill();
        });
        log::info("text {} of {}: {} tokens, prefill {:.1f} ms", text + 1, of, prefilled_.prompt_tokens,
                  prefilled_.prefill_ms);
        prefill_ms_ += prefilled_.prefill_ms;
        passes_ = std::max(passes_, prefilled_.passes);
        prefill_link_ = prefill_link_ + prefilled_.prefill_link;
        ++prefills_;
    }

    void warm_up() {
        std::vector<double> seconds;
        for (size_t m = 0; m < chains_.size() && run_.status() == 0; ++m) {
            if (Chains& chain = *chains_[m]; chain.wants_costs()) {
                chain.first().decoder().adopt(request_.prompt);
                chain.warm_up(rank_group_, request_.prompt.back());
            }
            const uint64_t begin = trace::now();
            continue_text(m, 0, 0);
            seconds.push_back(trace::ms_since(begin) * 1e-3);
            chains_[m]->take_kept_rounds();  // discards warm-up rounds
            for (const ChainLevel& level : chains_[m]->levels()) {
                results_[m]->levels.push_back({level.name, level.stats});
            }
        }
        // Prefills of further texts are not included.
        runs_ = static_cast<int64_t>(seconds.size() * texts_) * options_.repetitions;
        const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0) *
                               static_cast<double>(texts_ * static_cast<size_t>(options_.repetitions)) +
                           prefilled_.prefill_ms * 1e-3 * static_cast<double>(texts_ - 1);
        log::info("warmed up; {} runs of {} tokens will take about {}", runs_, request_.max_new, duration(all));
        begin_ns_ = said_ns_ = trace::now();
    }

    /// Each repetition uses its own random numbers, which all modes share.
    BenchRun continue_text(size_t mode, size_t text, int64_t repetition, RunLog* log = nullptr) {
        mode_ = mode;
        request_.first_sample = repetition * parallel_;
        const Slots slots = chains_[mode]->slots();
        GenerateStats stats = prefilled_;
        const uint64_t begin = trace::now();
        slots.first().adopt(request_.prompt);
        const double adopt_ms = trace::ms_since(begin);
        const double allreduce_before = allreduce_ms();
        const std::string what = fmt::format("{}, {}", results_[mode]->mode,
                                             log == nullptr ? "warm-up" : fmt::format("run {} of {}", ran_ + 1, runs_));
        std::optional<ProgressMeter> meter;  // its time begins with the first round
        int64_t decoded = 0;
        const Interrupt interrupt = [&](std::span<const int32_t> round) {
            if (log != nullptr) log->round(round);
            if (!meter) meter.emplace(what, "tokens", sink_);
            (*meter)(decoded += static_cast<int64_t>(round.size()), request_.max_new * parallel_);
            return run_.round(round);
        };
        const std::vector<Continuation> out = continue_prompt(slots, nullptr, request_, stats, {}, interrupt);
        BenchResult& result = *results_[mode];
        if (run_.status() == 0) {
            if (result.tokens.size() == text) result.tokens.push_back(out[0].ids);
            if (result.tokens[text] != out[0].ids && result.unsteady < 0) result.unsteady = static_cast<int64_t>(text);
        }
        return {.tokens = stats.new_tokens,
                .samples = parallel_,
                .ttft_ms = stats.ttft_ms + adopt_ms,
                .decode_ms = stats.decode_ms,
                .allreduce_ms = allreduce_ms() - allreduce_before,
                .link = stats.decode_link};
    }

    void run(size_t mode, size_t text, int64_t repetition) {
        log_.mode(results_[mode]->mode, parallel_, engine_);
        log_.text(static_cast<int64_t>(text), parallel_ == 1 ? repetition : -1);
        const BenchRun measured = continue_text(mode, text, repetition, &log_);
        log_.checks(chains_[mode]->take_kept_rounds());
        if (run_.status() != 0) return;
        log_.done({.text = static_cast<int64_t>(text),
                   .sample = repetition,
                   .side_by_side = parallel_,
                   .prompt_tokens = prefilled_.prompt_tokens,
                   .new_tokens = measured.tokens,
                   .prefill_ns = ns_of(prefilled_.prefill_ms),
                   .ttft_ns = ns_of(measured.ttft_ms),
                   .decode_ns = ns_of(measured.decode_ms)});
        ++ran_;
        const double left =
            trace::ms_since(begin_ns_) * 1e-3 / static_cast<double>(ran_) * static_cast<double>(runs_ - ran_);
        const std::string line = fmt::format("run {} of {}: {}, text {}, {} tokens, {:.2f} tok/s{}", ran_, runs_,
                                             results_[mode]->mode, text + 1, measured.tokens, measured.tokens_per_s(),
                                             ran_ < runs_ ? fmt::format("; about {} left", duration(left)) : "");
        // For short runs one line per ten seconds suffices.
        constexpr double kBetween_ms = 10e3;
        if (trace::ms_since(said_ns_) >= kBetween_ms) {
            log::info("{}", line);
            said_ns_ = trace::now();
        } else {
            log::debug("{}", line);
        }
        results_[mode]->runs.push_back(measured);
    }

    void finish(size_t mode) {
        BenchResult& result = *results_[mode];
        const Plan& plan = engine_.residency().plan;
        result.evicts = engine_.eviction().evicts();
        result.plain = chains_[mode]->levels().empty() && !result.evicts;
        result.on_chip = plan.on_chip_layers;
        result.layers = plan.on_chip_layers + plan.streamed_layers;
        result.parallel = parallel_;
        result.prefill_ms = prefills_ > 0 ? prefill_ms_ / static_cast<double>(prefills_) : 0;
        result.passes = passes_;
        result.prefill_link = prefill_link_;
        for (const size_t bytes : rank_group_.comm().gather_values(plan.kv.device + plan.kv.host))
            result.kv_bytes += bytes;
        result.costs = chains_[mode]->costs();
        const std::vector<ChainLevel> levels = chains_[mode]->levels();
        for (size_t i = 0; i < result.levels.size(); ++i) {
            result.levels[i].stats = levels[i].stats - result.levels[i].stats;
        }
    }

    const Options& options_;
    const RankGroup& rank_group_;
    Engine& engine_;
    int64_t parallel_;  // parallel samples
    std::vector<BenchResult*> results_;
    RunLog& log_;
    std::vector<std::unique_ptr<Chains>> chains_;
    ProgressSink sink_ = stderr_progress(rank_group_.first() && !options_.no_progress);
    GenerateRequest request_;
    GenerateStats prefilled_;
    double prefill_ms_ = 0;  // total
    int64_t prefills_ = 0, passes_ = 1;
    LinkUse prefill_link_;
    size_t mode_ = 0;  // being measured
    DecodeRun run_{rank_group_, [this] { return chains_[mode_]->digest(); }};
    size_t texts_ = 0;
    int64_t runs_ = 0, ran_ = 0;
    uint64_t begin_ns_ = 0, said_ns_ = 0;  // start of the runs; time of the last line about one
};

}  // namespace

BenchResults run_modes(const Start& start, const RankGroup& rank_group, Engine& engine, const BenchTexts& texts,
                       int64_t n, RunLog& log) {
    const Options& o = start.call.options;
    // Placement and eviction policy.
    const auto place_of = [&](const Mode& mode) {
        return std::pair(mode.kv_on_chip.value_or(o.kv_on_chip), mode.policy);
    };
    // none@auto keeps on chip all layers that fit without a draft model: it is measured with its own engine.
    const auto apart = [&](const Mode& mode) { return mode.kv_on_chip == PlanInput::kAuto && mode.chain == "none"; };
    const int64_t context = texts.tokens() + n;
    BenchResults out;
    for (size_t p = 0; p < o.parallel.size(); ++p) {
        for (const Mode& mode : o.modes) out.modes.emplace_back().mode = mode.name;
    }
    bool first = true;
    for (size_t p = 0; p < o.parallel.size(); ++p) {
        std::vector<bool> done(o.modes.size());
        for (size_t next = 0; next < done.size() && out.status == 0; ++next) {
            if (done[next]) continue;
            Start own = start;
            const Options of_mode = options_of(o, o.modes[next]);
            own.call.options.kv_on_chip = of_mode.kv_on_chip;
            own.call.options.eviction = of_mode.eviction;
            own.call.options.modes.clear();
            std::vector<BenchResult*> results;
            for (size_t m = next; m < done.size(); ++m) {
                if (place_of(o.modes[m]) != place_of(o.modes[next]) || apart(o.modes[m]) != apart(o.modes[next]))
                    continue;
                done[m] = true;
                own.call.options.modes.push_back(o.modes[m]);
                results.push_back(&out.modes[p * done.size() + m]);
            }
            std::optional<Group> group;
            try {
                int64_t parallel = o.parallel[p];
                if (parallel == Options::kMostParallel) {
                    parallel = std::max<int64_t>(1, engine.most_side_by_side(own, rank_group, context, texts.tokens(),
                                                                             true, Options::kParallelLimit));
                    log::info("{} samples side by side are the most that there is memory for", parallel);
                }
                engine.load(own, rank_group, context, texts.tokens(), {.texts = parallel, .of_one_prompt = true});
                group.emplace(own, rank_group, engine, n, parallel, results, log);
            } catch (const AgreedError& e) {
                if (first) throw;
                out.refused = e;
                return out;
            }
            out.status = group->measure(texts, first);
            first = false;
        }
    }
    return out;
}

const BenchResult* baseline_of(const std::vector<BenchResult>& all) {
    const auto found =
        std::find_if(all.begin(), all.end(), [](const BenchResult& r) { return r.plain && !r.runs.empty(); });
    return found == all.end() ? nullptr : &*found;
}

std::optional<std::string> difference(const BenchResult& mode, const BenchResult* baseline, bool greedy) {
    if (!greedy || baseline == nullptr || mode.runs.empty()) return std::nullopt;
    if (mode.unsteady >= 0) return fmt::format("text {}: two repetitions give different tokens", mode.unsteady + 1);
    if (mode.evicts) return std::nullopt;
    const size_t texts = std::min(mode.tokens.size(), baseline->tokens.size());
    for (size_t t = 0; t < texts; ++t) {
        const std::vector<int32_t>&mine = mode.tokens[t], &theirs = baseline->tokens[t];
        const auto [at, other] = std::mismatch(mine.begin(), mine.end(), theirs.begin(), theirs.end());
        if (at == mine.end() && other == theirs.end()) continue;
        return fmt::format("document {}: token {} after it is {}, that of {} is {}", t + 1, at - mine.begin() + 1,
                           at == mine.end() ? "missing" : std::to_string(*at), baseline->mode,
                           other == theirs.end() ? "missing" : std::to_string(*other));
    }
    return "";
}

}  // namespace trireme
