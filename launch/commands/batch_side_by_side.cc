#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "decode/places.h"
#include "launch/commands/batch_runs.h"
#include "launch/record/run_record.h"
#include "launch/run/agreed_status.h"
#include "launch/run/chain.h"
#include "launch/run/request.h"
#include "launch/run/side_by_side.h"
#include "launch/run/signals.h"
#include "runtime/log.h"
#include "runtime/random.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

double ms(uint64_t ns) {
    return static_cast<double>(ns) * 1e-6;
}

}  // namespace

BatchSideBySide::BatchSideBySide(const Start& start, const RankGroup& rank_group, Engine& engine,
                                 const std::vector<BatchRequest>& requests, RunLog& log)
    : start_(start),
      rank_group_(rank_group),
      engine_(engine),
      requests_(requests),
      log_(log),
      under_way_(requests.size()) {
    const Options& o = start_.call.options;
    int64_t context = 0, longest_prompt = 0;
    for (const BatchRequest& r : requests) {
        options_.push_back(r.options(o));
        rules_.push_back({.stop = options_.back().stop});
        if (!options_.back().ignore_eos) rules_.back().eos = engine_.checkpoint().eos;
        context = std::max(context, positions_of(r.tokens(), options_.back().n_predict, engine_.longest_context()));
        longest_prompt = std::max(longest_prompt, r.tokens());
    }
    parallel_ = texts_side_by_side(
        start, rank_group, engine,
        {.context = context, .prompt_tokens = longest_prompt, .texts = static_cast<int64_t>(requests.size())});
    engine_.load(start_, rank_group_, context, longest_prompt, {.texts = parallel_});
    log::info("{} requests side by side", parallel_);
    warn_of_unused({o});
}

int BatchSideBySide::run(const OnBatchDone& done) {
    Places places(engine_.model(), parallel_,
                  [this](int64_t id, Continuation text) { ended(static_cast<size_t>(id), std::move(text)); });
    std::vector<int32_t> round;
    log_.mode(mode_name(start_.call.options), parallel_, engine_);
    log_.text(-1, -1);
    try {
        for (size_t next = 0; next < requests_.size() || !places.empty();) {
            for (auto place = places.vacant(); place && next < requests_.size(); place = places.vacant()) {
                read(next, *place);
                begin(places, next++, *place);
                tell(done);
            }
            places.step(round);
            log_.round(round);
            tell(done);
            status_ = agreed_status(rank_group_, 0, round, 0);
            if (status_ != 0) break;
        }
    } catch (const Interrupted&) {
    }
    return status_;
}

/// Reads a request's prompt into the sequence of a slot.
void BatchSideBySide::read(size_t request, int place) {
    Level& model = engine_.model();
    UnderWay& u = under_way_[request];
    u.begin_ns = trace::now();
    model.truncate(place, 0);
    model.prefill(place, requests_[request].ids, [&](int64_t read, int64_t all) {
        if (request > 0) status_ = agreed_status(rank_group_, 0, {}, 0);
        if (status_ != 0) throw Interrupted{};
        if (read == all) remember_signals();  // from now on there is a result to keep
    });
    u.prefill_ms = ms(trace::now() - u.begin_ns);
}

/// Samples the request's first token from the prompt's logits, which are available.
void BatchSideBySide::begin(Places& places, size_t request, int place) {
    const Options& o = options_[request];
    Level& model = engine_.model();
    const Draws draws = {.sampling = o.sampling, .seed = o.seed.value_or(0), .sample = 0};
    const std::array<double, 1> u = {uniform(draws.seed, {.sample = draws.sample, .round = 0})};
    const int32_t first = model.sample(draws.sampling, u)[0];
    under_way_[request].first_ns = trace::now();
    const int64_t room = model.context() - requests_[request].tokens();
    const bool limited = o.n_predict >= 0 && o.n_predict <= room;
    places.begin(place, static_cast<int64_t>(request), draws,
                 std::make_unique<ContinuationBuilder>(engine_.checkpoint().tokenizer.get(), rules_[request], 0,
                                                       limited ? o.n_predict : room,
                                                       limited ? StopReason::kLimit : StopReason::kContext, unseen_),
                 first);
}

void BatchSideBySide::ended(size_t request, Continuation text) {
    const UnderWay& u = under_way_[request];
    const uint64_t now = trace::now();
    const auto behind = static_cast<double>(text.ids.size()) - 1;
    waiting_[request] = {.made = std::move(text),
                         .seconds = static_cast<double>((now - u.begin_ns) / 1000) / 1e6,
                         .prefill_ms = u.prefill_ms,
                         .tok_s = behind > 0 ? behind / ms(now - u.first_ns) * 1e3 : 0};
}

void BatchSideBySide::tell(const OnBatchDone& done) {
    for (auto next = waiting_.find(told_); next != waiting_.end(); next = waiting_.find(++told_)) {
        done(requests_[told_], next->second);
        waiting_.erase(next);
    }
}

}  // namespace trireme
