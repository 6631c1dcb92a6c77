#include <algorithm>
#include <utility>

#include "launch/commands/batch_runs.h"
#include "launch/record/run_record.h"
#include "launch/report/progress.h"
#include "launch/run/agreed_status.h"
#include "launch/run/chain.h"
#include "launch/run/eviction.h"
#include "launch/run/request.h"
#include "launch/run/signals.h"
#include "runtime/trace.h"

namespace trireme {

/// Allocates memory for the longest request and the longest prompt, so that all fit.
BatchOneByOne::BatchOneByOne(const Start& start, const RankGroup& rank_group, Engine& engine,
                             const std::vector<BatchRequest>& requests, SpecCosts costs, RunLog& log)
    : start_(start),
      rank_group_(rank_group),
      engine_(engine),
      requests_(requests),
      log_(log),
      costs_(std::move(costs)) {
    const Options& o = start_.call.options;
    for (const BatchRequest& r : requests) {
        const int64_t n_predict = r.options(o).n_predict;
        context_ = std::max(context_, positions_of(r.tokens(), n_predict, engine_.longest_context()));
        longest_prompt_ = std::max(longest_prompt_, r.tokens());
    }
    // A budget that is a fraction of the prompt may be too small for a short one. Fail now, before other requests run.
    rank_group_.phase([&] {
        for (const BatchRequest& r : requests) {
            try {
                eviction_shape(r.options(o), engine_.checkpoint().config(), r.tokens(), /*returns=*/false);
            } catch (const Error& e) {
                fail(e.code(), "request {}: {}", r.index + 1, e.what());
            }
        }
    });
    load(requests.front().options(o), requests.front().tokens());
    warn_of_unused_eviction(o, engine_.bounding(), context_);
    warn_of_unused({o});
}

int BatchOneByOne::run(const OnBatchDone& done) {
    for (const BatchRequest& request : requests_) {
        const uint64_t begin = trace::now();
        std::optional<Continuation> made = run_one(request);
        if (!made) break;
        done(request, {.made = std::move(*made),
                       .seconds = static_cast<double>((trace::now() - begin) / 1000) / 1e6,
                       .prefill_ms = stats_.prefill_ms,
                       .tok_s = stats_.tpot_ms > 0 ? 1e3 / stats_.tpot_ms : 0});
        if (status_ != 0) break;
    }
    return status_;
}

/// Runs one request. Returns nothing if a signal came before its end.
std::optional<Continuation> BatchOneByOne::run_one(const BatchRequest& asked) {
    const bool first = &asked == &requests_.front();
    const Options o = asked.options(start_.call.options);
    if (differs(o, asked.tokens())) load(o, asked.tokens());
    std::optional<Chain> chain;
    rank_group_.phase([&] { chain.emplace(o, engine_.model(), engine_.proposing(), engine_.device(), costs_); });
    WarmUp warm_up;
    if (chain->wants_costs()) warm_up = [&] { chain->warm_up(rank_group_, asked.ids.back()); };
    GenerateRequest request = {.prompt = asked.ids, .max_new = o.n_predict, .stops = {.stop = o.stop}};
    if (!o.ignore_eos) request.stops.eos = engine_.checkpoint().eos;
    log_.mode(mode_name(o), 1, engine_);
    log_.text(asked.index, 0);
    std::vector<Continuation> made;
    const ProgressSink sink = stderr_progress(rank_group_.first() && !o.no_progress);
    const std::string what = fmt::format("request {} of {}", asked.index + 1, requests_.back().index + 1);
    ProgressMeter reading(what, "tokens", sink);
    std::optional<ProgressMeter> decoding;  // its time begins with the first round
    const int64_t most = most_tokens(request, asked.tokens(), context_).tokens;
    int64_t decoded = 0;
    try {
        made = generate(
            chain->decoder(), engine_.checkpoint().tokenizer.get(), request, stats_, {},
            [&](int64_t done, int64_t total) {
                reading(done, total);
                if (!first) status_ = agreed_status(rank_group_, 0, {}, 0);
                if (status_ != 0) throw Interrupted{};
                if (done == total) remember_signals();  // from now on there is a result to keep
            },
            [&](std::span<const int32_t> round) {
                log_.round(round);
                if (!decoding) decoding.emplace(what, "tokens", sink);
                (*decoding)(decoded += static_cast<int64_t>(round.size()), most);
                status_ = agreed_status(rank_group_, 0, round, chain->digest());
                return status_ != 0;
            },
            warm_up);
    } catch (const Interrupted&) {
        return std::nullopt;
    }
    log_.checks(chain->take_kept_rounds());
    costs_ = chain->costs();
    if (made.empty() || made[0].stop == StopReason::kInterrupted) return std::nullopt;
    return std::move(made[0]);
}

// An evicting cache may depend on the prompt's length and on the seed. Its memory is allocated for one of each.
bool BatchOneByOne::differs(const Options& o, int64_t prompt_tokens) const {
    return prompt_to_load(o, prompt_tokens, longest_prompt_) != loaded_for_ ||
           (o.eviction.policy == KvPolicy::kRandom && o.seed != loaded_seed_);
}

void BatchOneByOne::load(const Options& o, int64_t prompt_tokens) {
    Start own = start_;
    own.call.options = o;
    loaded_for_ = prompt_to_load(o, prompt_tokens, longest_prompt_);
    engine_.load(own, rank_group_, context_, loaded_for_);
    loaded_seed_ = o.seed;
}

}  // namespace trireme
