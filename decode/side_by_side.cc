#include "decode/side_by_side.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "decode/places.h"

namespace trireme {
namespace {

/// Reports samples in order: the output of a sample is held back until all samples before it are complete.
class InOrder {
  public:
    InOrder(const OnToken& on_token, int64_t samples)
        : on_token_(on_token), held_(static_cast<size_t>(samples)), complete_(held_.size(), false) {}

    void take(int64_t sample, int32_t id, std::string_view text) {
        if (!on_token_) return;
        if (sample == first_) return on_token_(sample, id, text);
        held_[static_cast<size_t>(sample)].push_back({id, std::string(text)});
    }
    void complete(int64_t sample) {
        complete_[static_cast<size_t>(sample)] = true;
        while (static_cast<size_t>(first_) < complete_.size() && complete_[static_cast<size_t>(first_)]) show(++first_);
    }

  private:
    struct Shown {
        int32_t id;
        std::string text;
    };
    void show(int64_t sample) {
        if (static_cast<size_t>(sample) >= held_.size()) return;
        for (const Shown& s : held_[static_cast<size_t>(sample)]) on_token_(sample, s.id, s.text);
        held_[static_cast<size_t>(sample)] = {};
    }

    const OnToken& on_token_;
    std::vector<std::vector<Shown>> held_;
    std::vector<bool> complete_;
    int64_t first_ = 0;  // the first sample that is not complete
};

/// The samples of a request, decoded in batch slots of a model.
class Samples {
  public:
    Samples(Decoder& plain, int64_t parallel, const SamplingParams& sampling, uint64_t seed, const Tokenizer* tokenizer,
            const GenerateRequest& request, const OnToken& on_token)
        : model_(plain.target()),
          draws_{.sampling = sampling, .seed = seed},
          tokenizer_(tokenizer),
          request_(request),
          in_order_(on_token, request.num_samples),
          show_([this](int64_t sample, int32_t id, std::string_view text) { in_order_.take(sample, id, text); }),
          prompt_(model_.length()),
          out_(static_cast<size_t>(request.num_samples)),
          places_(model_, std::min(parallel, request.num_samples), [this](int64_t sample, Continuation text) {
              out_[static_cast<size_t>(sample)] = std::move(text);
              in_order_.complete(sample);
          }) {
        // The prompt's logits are current: each sample's first token is drawn from them.
        for (int64_t i = 0; i < request.num_samples && request.max_new != 0; ++i) {
            plain.begin(static_cast<uint32_t>(request.first_sample + i));
            first_.push_back(plain.propose(1)[0].token);
        }
        // Other slots may hold samples of an earlier prompt.
        for (int place = 1; place < std::min(parallel, request.num_samples); ++place) model_.truncate(place, 0);
        begin();
    }

    /// Computes a token of every running sample, then starts others in the slots of those that have ended.
    void step(std::vector<int32_t>& round) {
        places_.step(round);
        begin();
    }
    void stop() { places_.stop(); }
    /// Returns all samples that were started.
    std::vector<Continuation> take() {
        out_.resize(static_cast<size_t>(begun_));
        return std::move(out_);
    }
    std::span<const int32_t> first_tokens() const { return first_; }
    const Places& places() const { return places_; }

  private:
    void begin() {
        const MostTokens most = most_tokens(request_, prompt_, model_.context());
        for (auto place = places_.vacant(); place && begun_ < request_.num_samples; place = places_.vacant()) {
            if (*place > 0 && model_.length(*place) == 0) model_.fork(*place);
            if (model_.length(*place) != prompt_) model_.truncate(*place, prompt_);
            const int64_t sample = begun_++;
            Draws draws = draws_;
            draws.sample = static_cast<uint32_t>(request_.first_sample + sample);
            places_.begin(
                *place, sample, draws,
                std::make_unique<ContinuationBuilder>(tokenizer_, request_.stops, sample, most.tokens, most.why, show_),
                first_.empty() ? 0 : first_[static_cast<size_t>(sample)]);
        }
    }

    Level& model_;
    Draws draws_;  // without the sample number
    const Tokenizer* tokenizer_;
    const GenerateRequest& request_;
    InOrder in_order_;
    OnToken show_;
    int64_t prompt_;  // tokens
    std::vector<Continuation> out_;
    std::vector<int32_t> first_;
    int64_t begun_ = 0;
    Places places_;
};

}  // namespace

std::vector<Continuation> generate_side_by_side(Decoder& plain, int64_t parallel, const SamplingParams& sampling,
                                                uint64_t seed, const Tokenizer* tokenizer,
                                                const GenerateRequest& request, GenerateStats& stats,
                                                const OnToken& on_token, const Progress& prefill,
                                                const Interrupt& interrupt) {
    read_prompt(plain, request, stats, prefill);
    return continue_side_by_side(plain, parallel, sampling, seed, tokenizer, request, stats, on_token, interrupt);
}

std::vector<Continuation> continue_side_by_side(Decoder& plain, int64_t parallel, const SamplingParams& sampling,
                                                uint64_t seed, const Tokenizer* tokenizer,
                                                const GenerateRequest& request, GenerateStats& stats,
                                                const OnToken& on_token, const Interrupt& interrupt) {
    DecodeTimer half(plain.target(), stats);
    Samples samples(plain, parallel, sampling, seed, tokenizer, request, on_token);
    std::vector<int32_t> round(samples.first_tokens().begin(), samples.first_tokens().end());
    const auto first_tokens = static_cast<int64_t>(round.size());
    if (!round.empty()) half.first_token();
    while (!round.empty()) {
        if (interrupt && interrupt(round)) {
            samples.stop();
            break;
        }
        samples.step(round);
    }
    const Places& places = samples.places();
    std::vector<Continuation> out = samples.take();
    stats.new_tokens += places.tokens() + static_cast<int64_t>(out.size()) * (first_tokens > 0 ? 1 : 0);
    stats.rounds += places.forwards() + first_tokens;
    half.end(static_cast<int64_t>(out.size()));
    if (places.forwards() > 0) {
        stats.read_bytes_per_step = places.read_bytes() / static_cast<uint64_t>(places.forwards());
    }
    return out;
}

}  // namespace trireme
