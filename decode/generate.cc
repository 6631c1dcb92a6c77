#include "decode/generate.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "decode/loop.h"
#include "decode/prompt_ids.h"
#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

double ms_between(uint64_t begin_ns, uint64_t end_ns) {
    return static_cast<double>(end_ns - begin_ns) * 1e-6;
}

LinkUse link_use(const Level& model) {
    const Transport* transport = model.cache().transport();
    return transport == nullptr ? LinkUse{} : transport->use();
}

void per_token(const Level& model, int64_t samples, GenerateStats& stats) {
    const int64_t steps = stats.new_tokens - samples;
    stats.tpot_ms = steps > 0 ? stats.decode_ms / static_cast<double>(steps) : 0;
    const int64_t mean_length = stats.prompt_tokens + stats.new_tokens / std::max<int64_t>(1, 2 * samples);
    stats.read_bytes_per_step = step_bytes(model, mean_length);
}

/// Sample number for new draws after resuming at this many tokens; no other sample has it.
uint32_t resumed_sample(size_t tokens) {
    return uint32_t{1} << 31 | static_cast<uint32_t>(tokens);
}

/// Reports samples in order: the output of a sample is held back until all samples before it are complete.
class InOrder {
  public:
    InOrder(const OnToken& on_token, int64_t samples)
        : on_token_(on_token), held_(static_cast<size_t>(samples)), complete_(held_.size(), false) {}

    void take(int64_t sample, int32_t id, std::string_view text) {
        if (!on_token_) return;
        if (sample == first_) return on_token_(sample, id, text);
        held_[index(sample)].push_back({id, std::string(text)});
    }
    void complete(int64_t sample) {
        complete_[index(sample)] = true;
        while (static_cast<size_t>(first_) < complete_.size() && complete_[index(first_)]) show(++first_);
    }

  private:
    struct Shown {
        int32_t id;
        std::string text;
    };
    void show(int64_t sample) {
        if (static_cast<size_t>(sample) >= held_.size()) return;
        for (const Shown& s : held_[index(sample)]) on_token_(sample, s.id, s.text);
        held_[index(sample)] = {};
    }

    const OnToken& on_token_;
    std::vector<std::vector<Shown>> held_;
    std::vector<bool> complete_;
    int64_t first_ = 0;  // the first sample that is not complete
};

/// The samples of a request.
class Samples {
  public:
    Samples(const Slots& slots, const Tokenizer* tokenizer, const GenerateRequest& request, GenerateStats& stats,
            const OnToken& on_token)
        : slots_(slots),
          model_(slots.first().target()),
          tokenizer_(tokenizer),
          request_(request),
          stats_(stats),
          in_order_(on_token, request.num_samples),
          show_([this](int64_t sample, int32_t id, std::string_view text) { in_order_.take(sample, id, text); }),
          prompt_(static_cast<int64_t>(request.prompt.size())),
          out_(static_cast<size_t>(request.num_samples)),
          ready_(static_cast<size_t>(slots.size()), false),
          loop_(model_, std::min(slots.size(), std::max<int64_t>(1, request.num_samples)),
                [this](int64_t sample, Continuation text) {
                    out_[index(sample)] = std::move(text);
                    in_order_.complete(sample);
                    if (slots_.size() == 1) stop_clock();
                }) {
        ready_[0] = true;
        for (int slot = 1; slot < slots.size(); ++slot) model_.truncate(slot, 0);  // samples of an earlier prompt
    }

    bool done() const { return begun_ == request_.num_samples && loop_.empty(); }
    /// Begins samples in vacant slots, and draws their first tokens; without such samples, a round of all samples.
    void step(std::vector<int32_t>& round) {
        round.clear();
        for (auto slot = loop_.vacant(); slot && begun_ < request_.num_samples; slot = loop_.vacant()) {
            begin(*slot, round);
            if (slots_.size() == 1) break;  // a round belongs to one sample
        }
        if (!round.empty()) {
            if (first_ns_ == 0 && !loop_.empty()) first_ns_ = trace::now();
            return;
        }
        const int64_t before = loop_.forwards();
        loop_.step(round);
        if (first_ns_ == 0 && !round.empty()) first_ns_ = trace::now();  // a resumed sample continues
        stats_.rounds += loop_.forwards() - before;
        if (token_ns_ == 0 && !round.empty()) token_ns_ = trace::now();
    }
    void stop() { loop_.stop(); }
    /// Returns all samples that were started.
    std::vector<Continuation> take() {
        stop_clock();
        out_.resize(static_cast<size_t>(begun_));
        return std::move(out_);
    }
    uint64_t token_ns() const { return token_ns_; }  // time of the run's first token; 0: none

  private:
    void begin(int slot, std::vector<int32_t>& round) {
        const int64_t sample = begun_++;
        Decoder& decoder = slots_[slot];
        if (!ready_[index(slot)]) {
            model_.cache().fork(slot);
            decoder.adopt(request_.prompt);
            ready_[index(slot)] = true;
        }
        const bool resumes = sample == 0 && !request_.resumed.empty(), exact = sample == 0 && request_.exact;
        const MostTokens most = most_tokens(request_, prompt_, model_.context());
        auto text =
            std::make_unique<ContinuationBuilder>(tokenizer_, request_.stops, sample, most.tokens, most.why, show_);
        if (!exact) {
            decoder.begin(resumes ? resumed_sample(request_.resumed.size())
                                  : static_cast<uint32_t>(request_.first_sample + sample));
        }
        for (size_t t = 0; resumes && t < request_.resumed.size() && !text->done(); ++t)
            text->take(request_.resumed[t]);
        if (sample == 0 && request_.begun) request_.begun();
        loop_.begin(decoder, sample, std::move(text));
        const size_t before = round.size();
        if (!exact || request_.resumed.empty()) loop_.draw_first(decoder, round);
        if (round.size() == before) return;
        ++stats_.rounds;
        if (token_ns_ == 0) token_ns_ = trace::now();
    }
    void stop_clock() {
        if (first_ns_ != 0) stats_.decode_ms += ms_between(first_ns_, trace::now());
        first_ns_ = 0;
    }

    const Slots& slots_;
    Level& model_;
    const Tokenizer* tokenizer_;
    const GenerateRequest& request_;
    GenerateStats& stats_;
    InOrder in_order_;
    OnToken show_;
    int64_t prompt_;  // tokens
    std::vector<Continuation> out_;
    std::vector<bool> ready_;  // [slots] the sequence has the prompt
    int64_t begun_ = 0;
    uint64_t token_ns_ = 0;
    uint64_t first_ns_ = 0;  // time of the first token since the clock was stopped; 0: none
    Loop loop_;
};

}  // namespace

// Every generated token takes a position in the context, even the last one, which is never computed.
MostTokens most_tokens(const GenerateRequest& request, int64_t prompt, int64_t context) {
    const int64_t room = context - prompt;
    if (request.max_new < 0 || request.max_new > room) return {room, StopReason::kContext};
    return {request.max_new, StopReason::kLimit};
}

void read_prompt(Decoder& proposer, const GenerateRequest& request, GenerateStats& stats, const Progress& prefill) {
    Level& model = proposer.target();
    const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
    require(prompt_tokens > 0, Exit::kConfig, "the prompt is empty: give at least one token");
    check_ids(request.prompt, model.config().vocab);
    require(prompt_tokens + (request.max_new == 0 ? 0 : 1) <= model.context(), Exit::kConfig,
            "the prompt has {} tokens and the context {}: shorten it, or raise the context", prompt_tokens,
            model.context());

    stats = {};
    stats.prompt_tokens = prompt_tokens;
    const LinkUse link_before = link_use(model);
    const uint64_t begin = trace::now();
    proposer.prefill(request.prompt, prefill);
    stats.prefill_ms = ms_between(begin, trace::now());
    stats.passes = model.passes();
    stats.prefill_link = link_use(model) - link_before;
}

void warm_up(const WarmUp& call, GenerateStats& stats) {
    const uint64_t begin = trace::now();
    call();
    stats.warmup_ms = ms_between(begin, trace::now());
}

std::vector<Continuation> continue_prompt(const Slots& slots, const Tokenizer* tokenizer,
                                          const GenerateRequest& request, GenerateStats& stats, const OnToken& on_token,
                                          const Interrupt& interrupt) {
    Level& model = slots.first().target();
    const LinkUse link_before = link_use(model);
    const uint64_t begin = trace::now();
    Samples samples(slots, tokenizer, request, stats, on_token);
    std::vector<int32_t> round;
    while (!samples.done()) {
        samples.step(round);
        stats.new_tokens += static_cast<int64_t>(round.size());
        if (round.empty() || !interrupt || !interrupt(round)) continue;
        samples.stop();
        break;
    }
    std::vector<Continuation> out = samples.take();
    if (samples.token_ns() != 0) {
        stats.ttft_ms = stats.prefill_ms + stats.resume_ms + stats.warmup_ms + ms_between(begin, samples.token_ns());
    }
    if (Transport* transport = model.cache().transport()) transport->settle();
    stats.decode_link = link_use(model) - link_before;
    per_token(model, static_cast<int64_t>(out.size()), stats);
    return out;
}

std::vector<Continuation> generate(const Slots& slots, const Tokenizer* tokenizer, const GenerateRequest& request,
                                   GenerateStats& stats, const OnToken& on_token, const Progress& prefill,
                                   const Interrupt& interrupt, const WarmUp& between) {
    read_prompt(slots.first(), request, stats, prefill);
    if (between && request.max_new != 0 && request.num_samples > 0) warm_up(between, stats);
    return continue_prompt(slots, tokenizer, request, stats, on_token, interrupt);
}

}  // namespace trireme
