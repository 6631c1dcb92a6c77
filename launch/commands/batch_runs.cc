#include "launch/commands/batch_runs.h"

#include <algorithm>
#include <utility>

#include "launch/record/run_record.h"
#include "launch/run/agreed_status.h"
#include "launch/run/eviction.h"
#include "launch/run/request.h"
#include "launch/run/side_by_side.h"
#include "launch/run/signals.h"
#include "runtime/index.h"
#include "runtime/log.h"
#include "runtime/trace.h"

namespace trireme {

BatchRuns::BatchRuns(const Start& start, const RankGroup& rank_group, Engine& engine, SpecCosts costs, RunLog& log)
    : start_(start),
      rank_group_(rank_group),
      engine_(engine),
      log_(log),
      costs_(std::move(costs)),
      sink_(stderr_progress(rank_group.first() && !start.call.options.no_progress)) {}

void BatchRuns::reserve(const SideBySideAsked& asked) {
    reserve(asked, start_.call.options, std::max(asked.prompt_tokens, longest_prompt_));
}

void BatchRuns::adapt(int64_t prompt) {
    const Options& o = start_.call.options;
    if (!fits_loaded(o, prompt)) load(o, prompt);
}

void BatchRuns::release() {
    loop_.reset();
    context_ = longest_prompt_ = asked_ = 0;
    parallel_ = 1;
}

/// Loads with these options, for a first prompt of `first` tokens.
void BatchRuns::reserve(const SideBySideAsked& asked, const Options& o, int64_t first) {
    const int64_t wanted = o.parallel.front();
    const bool more_slots =
        wanted == Options::kMostParallel ? asked.texts > asked_ : std::min(wanted, asked.texts) > parallel_;
    if (loop_ && asked.context <= context_ && asked.prompt_tokens <= longest_prompt_ && !more_slots) return;
    context_ = std::max(context_, asked.context);
    longest_prompt_ = std::max(longest_prompt_, asked.prompt_tokens);
    asked_ = std::max(asked_, asked.texts);
    parallel_ = texts_side_by_side(start_, rank_group_, engine_,
                                   {.context = context_, .prompt_tokens = longest_prompt_, .texts = asked_});
    load(o, first);
}

// A budget that is a fraction of the prompt may be too small for a short one. Fail before any request runs.
void BatchRuns::check_budgets() const {
    rank_group_.phase([&] {
        for (size_t r = 0; r < requests_.size(); ++r) {
            try {
                eviction_shape(options_[r], engine_.checkpoint().config(), requests_[r].tokens(), /*returns=*/false);
            } catch (const Error& e) {
                fail(e.code(), "request {}: {}", requests_[r].index + 1, e.what());
            }
        }
    });
}

// An evicting cache may depend on the prompt's length and on the seed. Its memory is allocated for one of each.
bool BatchRuns::fits_loaded(const Options& o, int64_t prompt) const {
    return prompt_to_load(o, prompt, longest_prompt_) == loaded_for_ &&
           (!row_of(o.eviction.policy).drawn || o.seed == loaded_seed_);
}

void BatchRuns::load(const Options& o, int64_t prompt_tokens) {
    Start own = start_;
    own.call.options = o;
    loaded_for_ = prompt_to_load(o, prompt_tokens, longest_prompt_);
    loop_.reset();
    chains_.clear();
    ++loads_;
    engine_.load(own, rank_group_, context_, loaded_for_, {.texts = parallel_});
    loaded_seed_ = o.seed;
    chains_.resize(static_cast<size_t>(parallel_));
    texts_.resize(chains_.size());
    if (parallel_ > 1) {
        log_.mode(mode_name(o), parallel_, engine_);
        log_.text(-1, -1);
    }
    loop_.emplace(engine_.model(), parallel_,
                  [this](int64_t id, Continuation text) { ended(static_cast<size_t>(id), std::move(text)); });
}

void BatchRuns::prepare(std::vector<BatchRequest> requests) {
    requests_ = std::move(requests);
    options_.clear();
    rules_.clear();
    times_.assign(requests_.size(), {});
    reported_ = 0;
    SideBySideAsked asked = {.texts = std::ssize(requests_)};
    for (const BatchRequest& r : requests_) {
        options_.push_back(r.options(start_.call.options));
        rules_.push_back({.stop = options_.back().stop});
        if (!options_.back().ignore_eos) rules_.back().eos = engine_.checkpoint().eos;
        asked.context =
            std::max(asked.context, positions_of(r.tokens(), options_.back().n_predict, engine_.longest_context()));
        asked.prompt_tokens = std::max(asked.prompt_tokens, r.tokens());
    }
    check_budgets();
    const bool first = !loop_;
    reserve(asked, options_[0], requests_[0].tokens());
    if (!first) return;
    if (start_.call.options.side_by_side()) log::info("{} requests side by side", parallel_);
    warn_of_unused_eviction(start_.call.options, engine_.bounding(), context_);
    warn_of_unused({start_.call.options});
}

int BatchRuns::run(const OnBatchDone& done, const OnBatchText& text) {
    streams_.assign(requests_.size(), {});
    for (size_t r = 0; r < requests_.size() && text; ++r) {
        if (!requests_[r].streams) continue;
        streams_[r] = [&text, &request = requests_[r]](int64_t, int32_t, std::string_view part) {
            text(request, part);
        };
    }
    std::vector<int32_t> round;
    try {
        for (size_t next = 0; next < requests_.size() || !loop_->empty();) {
            round.clear();
            for (auto slot = loop_->vacant(); slot && next < requests_.size(); slot = loop_->vacant()) {
                if (!fits_loaded(options_[next], requests_[next].tokens())) {
                    if (!loop_->empty()) break;  // first those that are being decoded
                    load(options_[next], requests_[next].tokens());
                }
                begin(next++, *slot, round);
                report(done);
                if (parallel_ == 1) break;  // a round belongs to one request
            }
            if (round.empty()) loop_->step(round);
            finish_round(round);
            report(done);
            if (decode_run_.status() != 0) break;
        }
    } catch (const Interrupted&) {
    }
    return decode_run_.status();
}

/// Puts a request into a vacant slot: reads its prompt and draws its first token.
void BatchRuns::begin(size_t request, int slot, std::vector<int32_t>& round) {
    const Options& o = options_[request];
    const BatchRequest& asked = requests_[request];
    std::unique_ptr<Chain>& chain = chains_[index(slot)];
    chain.reset();
    texts_[index(slot)] = asked.index;
    rank_group_.phase([&] {
        chain = std::make_unique<Chain>(o, engine_.model(), engine_.proposing(), engine_.device(), costs_, slot);
    });
    if (parallel_ == 1) {
        log_.mode(mode_name(o), 1, engine_);
        log_.text(asked.index, 0);
    }
    read(request, *chain);
    if (chain->wants_costs() && o.n_predict != 0) {
        chain->warm_up(rank_group_, asked.ids.back());
        costs_ = chain->costs();
    }
    const MostTokens most =
        most_tokens({.prompt = {}, .max_new = o.n_predict}, asked.tokens(), engine_.model().context());
    decoding_.reset();
    current_ = request;
    decoded_ = 0;
    most_ = most.tokens;
    Decoder& decoder = chain->decoder();
    decoder.begin(0);
    auto text = std::make_unique<ContinuationBuilder>(engine_.checkpoint().tokenizer.get(), rules_[request], 0,
                                                      most.tokens, most.why, streams_[request]);
    times_[request].first_ns = trace::now();
    loop_->begin(decoder, static_cast<int64_t>(request), std::move(text));
    loop_->draw_first(decoder, round);
    times_[request].first_ns = trace::now();
}

std::string BatchRuns::name_of_request(size_t request) const {
    return fmt::format("request {} of {}", requests_[request].index + 1, requests_.back().index + 1);
}

void BatchRuns::read(size_t request, Chain& chain) {
    Times& t = times_[request];
    t.begin_ns = trace::now();
    std::optional<ProgressMeter> reading;
    if (parallel_ == 1) reading.emplace(name_of_request(request), "tokens", sink_);
    chain.decoder().prefill(requests_[request].ids, [&](int64_t done, int64_t all) {
        if (reading) (*reading)(done, all);
        if (began_) decode_run_.prefill();
        if (done == all) remember_signals();  // from now on there is a result to keep
    });
    t.prefill_ms = trace::ms_since(t.begin_ns);
    began_ = true;
}

/// Logs a round and agrees with the other ranks whether the run continues.
void BatchRuns::finish_round(const std::vector<int32_t>& round) {
    log_.round(round);
    if (parallel_ == 1 && !round.empty()) {
        if (!decoding_) decoding_.emplace(name_of_request(current_), "tokens", sink_);
        (*decoding_)(decoded_ += std::ssize(round), most_);
    }
    for (size_t slot = 0; slot < chains_.size(); ++slot) {
        if (chains_[slot]) log_.checks(chains_[slot]->take_kept_rounds(), texts_[slot]);
    }
    decode_run_.round(round);
}

void BatchRuns::ended(size_t request, Continuation text) {
    const Times& t = times_[request];
    const auto behind = static_cast<double>(text.ids.size()) - 1;
    waiting_[request] = {.made = std::move(text),
                         .seconds = static_cast<double>((trace::now() - t.begin_ns) / 1000) / 1e6,
                         .prefill_ms = t.prefill_ms,
                         .tok_s = behind > 0 ? behind / trace::ms_since(t.first_ns) * 1e3 : 0};
}

void BatchRuns::report(const OnBatchDone& done) {
    for (auto next = waiting_.find(reported_); next != waiting_.end(); next = waiting_.find(++reported_)) {
        done(requests_[reported_], next->second);
        waiting_.erase(next);
    }
}

}  // namespace trireme
