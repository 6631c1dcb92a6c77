#include "decode/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "decode/plain.h"
#include "decode/stop_text.h"
#include "model/tokenizer/stream_decoder.h"
#include "runtime/error.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

double ms(uint64_t ns) {
    return static_cast<double>(ns) * 1e-6;
}

double ms_since(uint64_t begin_ns) {
    return ms(trace::now() - begin_ns);
}

LinkUse link_use(const Level& model) {
    const Transport* transport = model.view().transport();
    return transport == nullptr ? LinkUse{} : transport->use();
}

void check_ids(const std::vector<int32_t>& ids, int64_t vocab) {
    for (size_t i = 0; i < ids.size(); ++i) {
        require(ids[i] >= 0 && ids[i] < vocab, Exit::kConfig,
                "prompt: id {} at index {} is outside the vocabulary of {}", ids[i], i, vocab);
    }
}

/// Ids of the stop strings that are special tokens: they leave no text to be found in.
std::vector<int32_t> special_stops(const Tokenizer* tokenizer, const std::vector<std::string>& stops) {
    std::vector<int32_t> ids;
    for (const std::string& stop : stops) {
        const std::vector<int32_t> encoded = tokenizer->encode(stop, false);
        if (encoded.size() == 1 && tokenizer->is_special(encoded[0])) ids.push_back(encoded[0]);
    }
    return ids;
}

/// One continuation: rounds of the chain until something stops it.
class Run {
  public:
    Run(const Tokenizer* tokenizer, const GenerateRequest& request, const std::vector<int32_t>& stop_ids, int64_t room,
        int64_t sample, const OnToken& on_token, const Interrupt& interrupt)
        : tokenizer_(tokenizer),
          request_(request),
          stop_text_(request.stop),
          stop_ids_(stop_ids),
          sample_(sample),
          on_token_(on_token),
          interrupt_(interrupt) {
        if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
        limit_ = room;
        if (request.max_new >= 0 && request.max_new <= room) {
            limit_ = request.max_new;
            at_limit_ = StopReason::kLimit;
        }
    }

    Continuation& operator()(Chain& chain, GenerateStats& stats, uint64_t prompt_begin_ns) {
        chain.begin(static_cast<uint32_t>(sample_));
        uint64_t first_ns = 0;
        while (!done_ && left() > 0) {
            const std::span<const int32_t> tokens = chain.round(left());
            ++stats.rounds;
            if (first_ns == 0) {
                first_ns = trace::now();
                if (sample_ == 0) stats.ttft_ms = static_cast<double>(first_ns - prompt_begin_ns) * 1e-6;
            }
            // A block may run past EOS, a stop string or the limit: what is behind is not part of the text.
            for (size_t i = 0; i < tokens.size() && !done_ && left() > 0; ++i) take(tokens[i]);
        }
        if (!done_) out_.stop = at_limit_;
        finish_text();
        stats.new_tokens += static_cast<int64_t>(out_.ids.size());
        if (first_ns != 0) stats.decode_ms += ms_since(first_ns);
        return out_;
    }

  private:
    int64_t left() const { return limit_ - static_cast<int64_t>(out_.ids.size()); }

    void take(int32_t id) {
        out_.ids.push_back(id);
        std::string text;
        if (std::find(request_.eos.begin(), request_.eos.end(), id) != request_.eos.end()) {
            stop(StopReason::kEos);
        } else if (std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end()) {
            stop(StopReason::kStopString);
        } else if (decoder_ && !tokenizer_->is_special(id)) {  // control tokens are ids, not text
            text = stop_text_.push(decoder_->push(id));
            if (stop_text_.stopped()) stop(StopReason::kStopString);
        }
        out_.text += text;
        if (on_token_) on_token_(sample_, id, text);
        if (interrupt_ && interrupt_(id) && !done_) stop(StopReason::kInterrupted);
    }
    void stop(StopReason reason) {
        out_.stop = reason;
        done_ = true;
    }
    void finish_text() {
        const std::string rest = stop_text_.flush();  // half a character stays in the decoder
        out_.text += rest;
        if (on_token_) on_token_(sample_, -1, rest);
    }

    const Tokenizer* tokenizer_;
    const GenerateRequest& request_;
    std::optional<StreamDecoder> decoder_;
    StopText stop_text_;
    const std::vector<int32_t>& stop_ids_;
    int64_t sample_, limit_;
    StopReason at_limit_ = StopReason::kContext;
    const OnToken& on_token_;
    const Interrupt& interrupt_;
    bool done_ = false;
    Continuation out_;
};

}  // namespace

const char* name_of(StopReason reason) {
    switch (reason) {
        case StopReason::kEos:
            return "eos";
        case StopReason::kStopString:
            return "stop_string";
        case StopReason::kLimit:
            return "limit";
        case StopReason::kContext:
            return "context";
        case StopReason::kInterrupted:
            return "interrupted";
    }
    return "";
}

std::vector<Continuation> generate(Level& model, const Tokenizer* tokenizer, const GenerateRequest& request,
                                   GenerateStats& stats, const OnToken& on_token, const Progress& prefill,
                                   const Interrupt& interrupt) {
    const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
    require(prompt_tokens > 0, Exit::kConfig, "the prompt is empty: give at least one token (-p, -f or --prompt-ids)");
    check_ids(request.prompt, model.config().vocab);
    require(prompt_tokens + (request.max_new == 0 ? 0 : 1) <= model.context(), Exit::kConfig,
            "the prompt has {} tokens and the context {}: shorten it or raise -c", prompt_tokens, model.context());
    check(tokenizer != nullptr || request.stop.empty(), "stop strings need a tokenizer");

    stats = {};
    stats.prompt_tokens = prompt_tokens;
    const LinkUse link_before = link_use(model);
    const uint64_t begin = trace::now();
    model.truncate(0, 0);
    model.prefill(0, request.prompt, prefill);
    stats.prefill_ms = ms_since(begin);
    const LinkUse link_prefilled = link_use(model);
    stats.prefill_link = link_prefilled - link_before;

    Plain chain(model, request.sampling, request.seed);
    const std::vector<int32_t> stop_ids = special_stops(tokenizer, request.stop);
    std::vector<Continuation> out;
    for (int64_t i = 0; i < request.num_samples && (out.empty() || out.back().stop != StopReason::kInterrupted); ++i) {
        // Every generated token has a position in the context, the last one too, though it is never computed.
        Run run(tokenizer, request, stop_ids, model.context() - prompt_tokens, i, on_token, interrupt);
        out.push_back(std::move(run(chain, stats, begin)));
    }
    if (Transport* transport = model.view().transport()) transport->settle();
    stats.decode_link = link_use(model) - link_prefilled;
    const int64_t steps = stats.new_tokens - static_cast<int64_t>(out.size());
    stats.tpot_ms = steps > 0 ? stats.decode_ms / static_cast<double>(steps) : 0;
    const int64_t mean_length =
        prompt_tokens + stats.new_tokens / std::max<int64_t>(1, 2 * static_cast<int64_t>(out.size()));
    stats.read_bytes_per_token = model.weights().bytes_per_step() + model.kv_bytes(mean_length);
    return out;
}

Score score(Level& model, const std::vector<int32_t>& ids, const Level::EachLogits& each, const Progress& progress) {
    require(ids.size() >= 2, Exit::kConfig, "score: {} tokens; at least 2 are needed", ids.size());
    check_ids(ids, model.config().vocab);

    Score out;
    model.truncate(0, 0);
    model.prefill(0, ids, progress, [&](int64_t position, const HostTensor& logits) {
        const Matrix<float> m = logits.as<float>();
        for (int64_t r = 0; r < m.rows && position + r + 1 < static_cast<int64_t>(ids.size()); ++r) {
            double top = -std::numeric_limits<double>::infinity(), sum = 0;
            for (int64_t c = 0; c < m.cols; ++c) top = std::max(top, static_cast<double>(m(r, c)));
            for (int64_t c = 0; c < m.cols; ++c) sum += std::exp(static_cast<double>(m(r, c)) - top);
            const double target = static_cast<double>(m(r, ids[static_cast<size_t>(position + r + 1)]));
            out.logprobs.push_back(target - top - std::log(sum));
        }
        if (each) each(position, logits);
    });
    double total = 0;
    for (const double x : out.logprobs) total += x;
    require(std::isfinite(total), Exit::kData,
            "score: a log probability is not finite: the weights overflow in this precision; try --dtype f32");
    out.perplexity = std::exp(-total / static_cast<double>(out.logprobs.size()));
    return out;
}

}  // namespace trireme
