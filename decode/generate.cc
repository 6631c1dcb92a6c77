#include "decode/generate.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "decode/prompt_ids.h"
#include "runtime/error.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

double ms_between(uint64_t begin_ns, uint64_t end_ns) {
    return static_cast<double>(end_ns - begin_ns) * 1e-6;
}

LinkUse link_use(const Level& model) {
    const Transport* transport = model.view().transport();
    return transport == nullptr ? LinkUse{} : transport->use();
}

void per_token(const Level& model, int64_t samples, GenerateStats& stats) {
    const int64_t steps = stats.new_tokens - samples;
    stats.tpot_ms = steps > 0 ? stats.decode_ms / static_cast<double>(steps) : 0;
    const int64_t mean_length = stats.prompt_tokens + stats.new_tokens / std::max<int64_t>(1, 2 * samples);
    stats.read_bytes_per_step = model.weights().bytes_per_step() + model.read_bytes(mean_length);
}

/// Sample number for new draws after resuming at this many tokens; no other sample has it.
uint32_t resumed_sample(size_t tokens) {
    return uint32_t{1} << 31 | static_cast<uint32_t>(tokens);
}

struct Run {
    uint64_t first_ns = 0;     // time of the first token; 0: none
    bool interrupted = false;  // also true if the continuation had already ended by itself
};

/// Runs rounds of the proposer until the continuation ends.
Run run(Proposer& proposer, ContinuationBuilder& text, GenerateStats& stats, const Interrupt& interrupt) {
    Run result;
    std::array<int32_t, kMaxRows> path, ids;
    while (!text.done()) {
        const std::span<const Proposed> round = proposer.propose(text.left());
        check(!round.empty() && round.size() <= path.size(), "{}: a round of {} tokens", proposer.name(), round.size());
        ++stats.rounds;
        if (result.first_ns == 0) result.first_ns = trace::now();
        // A block may run past EOS, a stop string or the limit: later tokens are not part of the sequence.
        size_t taken = 0;
        for (; taken < round.size() && !text.done(); ++taken) {
            check(round[taken].parent == static_cast<int32_t>(taken) - 1, "{}: the outermost proposal is no chain",
                  proposer.name());
            text.take(round[taken].token);
            ids[taken] = round[taken].token;
        }
        stats.new_tokens += static_cast<int64_t>(taken);
        std::iota(path.begin(), path.end(), 0);
        proposer.resolve(std::span(path).first(taken), -1);
        if (!interrupt || !interrupt(std::span(ids).first(taken))) continue;
        result.interrupted = true;
        if (!text.done()) text.stop(StopReason::kInterrupted);
    }
    return result;
}

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

std::vector<Continuation> continue_prompt(Decoder& proposer, const Tokenizer* tokenizer, const GenerateRequest& request,
                                          GenerateStats& stats, const OnToken& on_token, const Interrupt& interrupt) {
    Level& model = proposer.target();
    const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
    const LinkUse link_before = link_use(model);
    const uint64_t begin = trace::now();
    const MostTokens most = most_tokens(request, prompt_tokens, model.context());
    std::vector<Continuation> out;
    bool interrupted = false;
    for (int64_t i = 0; i < request.num_samples && !interrupted; ++i) {
        const auto number = static_cast<uint32_t>(request.first_sample + i);
        const bool resumes = i == 0 && !request.resumed.empty();
        if (!(i == 0 && request.exact)) proposer.begin(resumes ? resumed_sample(request.resumed.size()) : number);
        ContinuationBuilder text(tokenizer, request.stops, i, most.tokens, most.why, on_token);
        for (size_t t = 0; resumes && t < request.resumed.size() && !text.done(); ++t) text.take(request.resumed[t]);
        if (i == 0 && request.begun) request.begun();
        const auto [first_ns, stopped] = run(proposer, text, stats, interrupt);
        interrupted = stopped;
        out.push_back(text.finish());
        if (first_ns == 0) continue;
        if (i == 0) stats.ttft_ms = stats.prefill_ms + stats.resume_ms + stats.warmup_ms + ms_between(begin, first_ns);
        stats.decode_ms += ms_between(first_ns, trace::now());
    }
    if (Transport* transport = model.view().transport()) transport->settle();
    stats.decode_link = link_use(model) - link_before;
    per_token(model, static_cast<int64_t>(out.size()), stats);
    return out;
}

DecodeTimer::DecodeTimer(Level& model, GenerateStats& stats)
    : model_(model), stats_(stats), link_before_(link_use(model)), begin_ns_(trace::now()) {}

void DecodeTimer::first_token() {
    first_ns_ = trace::now();
    stats_.ttft_ms = stats_.prefill_ms + stats_.warmup_ms + ms_between(begin_ns_, first_ns_);
}

void DecodeTimer::end(int64_t samples) {
    if (first_ns_ != 0) stats_.decode_ms += ms_between(first_ns_, trace::now());
    if (Transport* transport = model_.view().transport()) transport->settle();
    stats_.decode_link = link_use(model_) - link_before_;
    per_token(model_, samples, stats_);
}

std::vector<Continuation> generate(Decoder& proposer, const Tokenizer* tokenizer, const GenerateRequest& request,
                                   GenerateStats& stats, const OnToken& on_token, const Progress& prefill,
                                   const Interrupt& interrupt, const WarmUp& between) {
    read_prompt(proposer, request, stats, prefill);
    if (between && request.max_new != 0 && request.num_samples > 0) warm_up(between, stats);
    return continue_prompt(proposer, tokenizer, request, stats, on_token, interrupt);
}

}  // namespace trireme
