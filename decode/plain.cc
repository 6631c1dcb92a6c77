#include "decode/plain.h"

#include "runtime/error.h"
#include "runtime/random.h"

namespace trireme {

Plain::Plain(Level& model, const SamplingParams& sampling, uint64_t seed)
    : text_(model), sampling_(sampling), seed_(seed) {
    validate(sampling);
}

void Plain::prefill(std::span<const int32_t> prompt, const Progress& progress) {
    text_.prefill(prompt, progress);
}

void Plain::adopt(std::span<const int32_t> prompt) {
    text_.adopt(prompt);
}

void Plain::begin(uint32_t sample) {
    text_.begin();
    sample_ = sample;
    round_ = 0;
}

std::span<const Proposed> Plain::propose(int64_t) {
    Level& model = text_.level();
    if (!text_.at_prompt()) {
        text_.rows_of_pending(rows_);
        model.extend(rows_);
        text_.accept_rows();
        text_.commit();
    }
    const std::array<double, 1> u = {uniform(seed_, {.sample = sample_, .round = round_++})};
    proposal_[0] = {.token = model.sample(sampling_, u)[0]};
    return proposal_;
}

void Plain::resolve(std::span<const int32_t> path, int32_t next) {
    check(path.size() <= 1 && (path.empty() || path[0] == 0), "plain: a path of {} tokens", path.size());
    if (!path.empty()) text_.append(proposal_[0].token);
    if (next >= 0) text_.append(next);
}

void Plain::state(Archive& ar) {
    ar.section("plain");
    text_.state(ar, /*tiles=*/false);
    ar.value(sample_);
    ar.value(round_);
}

void Plain::rewind(int64_t n, int32_t next) {
    text_.truncate(text_.length() - n, next);
}

}  // namespace trireme
