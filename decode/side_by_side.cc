#include "decode/side_by_side.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "runtime/error.h"
#include "runtime/random.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

/// What samples show, in their order: those behind one that is not complete are held back.
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

/// A sequence, and the sample that it computes.
struct Place {
    int32_t sequence = 0;
    int64_t sample = -1;  // -1: none
    std::unique_ptr<ContinuationBuilder> text;
    int32_t last = 0;    // its last token, which has not been computed
    uint32_t round = 0;  // of its draws
};

class Samples {
  public:
    Samples(Decoder& plain, int64_t parallel, const SamplingParams& sampling, uint64_t seed, const Tokenizer* tokenizer,
            const GenerateRequest& request, GenerateStats& stats, const OnToken& on_token)
        : model_(plain.target()),
          sampling_(sampling),
          seed_(seed),
          tokenizer_(tokenizer),
          request_(request),
          stats_(stats),
          in_order_(on_token, request.num_samples),
          show_([this](int64_t sample, int32_t id, std::string_view text) { in_order_.take(sample, id, text); }),
          prompt_(model_.length()),
          places_(static_cast<size_t>(std::min(parallel, request.num_samples))),
          out_(static_cast<size_t>(request.num_samples)) {
        for (int64_t i = 0; i < request.num_samples && request.max_new != 0; ++i) {
            plain.begin(static_cast<uint32_t>(request.first_sample + i));
            first_.push_back(plain.propose(1)[0].token);
            ++stats_.rounds;
        }
        for (size_t p = 0; p < places_.size(); ++p) {
            places_[p].sequence = static_cast<int32_t>(p);
            if (p > 0) model_.fork(static_cast<int>(p));
        }
        for (Place& place : places_) next(place);
    }

    /// A token of every sample that is under way. False: there is none.
    bool step(std::vector<int32_t>& round) {
        round.clear();
        for (size_t begin = 0; begin < places_.size();) {
            std::vector<Row>& rows = rows_;
            std::vector<Place*>& computed = computed_;
            rows.clear();
            computed.clear();
            for (; begin < places_.size() && static_cast<int64_t>(rows.size()) < kMaxRows; ++begin) {
                Place& place = places_[begin];
                if (place.sample < 0) continue;
                const auto at = static_cast<int32_t>(model_.length(place.sequence));
                rows.push_back({.token = place.last, .position = at, .parent = -1, .sequence = place.sequence});
                computed.push_back(&place);
            }
            if (!rows.empty()) forward(round);
        }
        return !round.empty();
    }
    void stop() {
        for (Place& place : places_) {
            if (place.sample < 0) continue;
            place.text->stop(StopReason::kInterrupted);
            finish(place);
        }
    }
    /// All samples that were begun.
    std::vector<Continuation> take() {
        out_.resize(static_cast<size_t>(begun_));
        return std::move(out_);
    }
    uint64_t first_ns() const { return first_ns_; }
    std::span<const int32_t> first_tokens() const { return first_; }

  private:
    void forward(std::vector<int32_t>& round) {
        model_.forward(rows_);
        uniforms_.clear();
        for (Place* p : computed_) {
            const auto sample = static_cast<uint32_t>(request_.first_sample + p->sample);
            uniforms_.push_back(uniform(seed_, {.sample = sample, .round = p->round++}));
        }
        const std::span<const int32_t> drawn = model_.sample(sampling_, uniforms_);
        for (size_t r = 0; r < computed_.size(); ++r) {
            const std::array<int32_t, 1> kept = {static_cast<int32_t>(r)};
            model_.keep(rows_[r].sequence, kept);
        }
        ++stats_.rounds;
        for (size_t r = 0; r < computed_.size(); ++r) {
            round.push_back(drawn[r]);
            Place& place = *computed_[r];
            token(place, drawn[r]);
            if (place.text->done()) finish(place);
            next(place);
        }
    }

    void token(Place& place, int32_t id) {
        place.last = id;
        place.text->take(id);
        ++stats_.new_tokens;
        if (first_ns_ == 0) first_ns_ = trace::now();
    }

    void finish(Place& place) {
        out_[static_cast<size_t>(place.sample)] = place.text->finish();
        in_order_.complete(place.sample);
        place.sample = -1;
    }

    /// Where no sample is under way the next one begins, if there is one, until one does not end at once.
    void next(Place& place) {
        const int64_t room = model_.context() - prompt_;
        const bool limited = request_.max_new >= 0 && request_.max_new <= room;
        while (place.sample < 0 && begun_ < request_.num_samples) {
            if (model_.length(place.sequence) != prompt_) model_.truncate(place.sequence, prompt_);
            place.sample = begun_++;
            place.round = 1;
            place.text = std::make_unique<ContinuationBuilder>(
                tokenizer_, request_.stops, place.sample, limited ? request_.max_new : room,
                limited ? StopReason::kLimit : StopReason::kContext, show_);
            if (!place.text->done()) token(place, first_[static_cast<size_t>(place.sample)]);
            if (place.text->done()) finish(place);
        }
    }

    Level& model_;
    const SamplingParams& sampling_;
    uint64_t seed_;
    const Tokenizer* tokenizer_;
    const GenerateRequest& request_;
    GenerateStats& stats_;
    InOrder in_order_;
    OnToken show_;
    int64_t prompt_;  // tokens
    std::vector<Place> places_;
    std::vector<Continuation> out_;
    std::vector<int32_t> first_;  // the first token of each sample
    int64_t begun_ = 0;
    uint64_t first_ns_ = 0;
    std::vector<Row> rows_;
    std::vector<Place*> computed_;
    std::vector<double> uniforms_;
};

}  // namespace

std::vector<Continuation> generate_side_by_side(Decoder& plain, int64_t parallel, const SamplingParams& sampling,
                                                uint64_t seed, const Tokenizer* tokenizer,
                                                const GenerateRequest& request, GenerateStats& stats,
                                                const OnToken& on_token, const Progress& prefill,
                                                const Interrupt& interrupt) {
    read_prompt(plain, request, stats, prefill);
    const uint64_t begin = trace::now();
    Samples samples(plain, parallel, sampling, seed, tokenizer, request, stats, on_token);
    std::vector<int32_t> round(samples.first_tokens().begin(), samples.first_tokens().end());
    for (bool more = !round.empty(); more; more = samples.step(round)) {
        if (!interrupt || !interrupt(round)) continue;
        samples.stop();
        break;
    }
    std::vector<Continuation> out = samples.take();
    finish_stats(plain.target(), begin, samples.first_ns(), static_cast<int64_t>(out.size()), stats);
    return out;
}

}  // namespace trireme
