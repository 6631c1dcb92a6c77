#include "decode/plain.h"

#include "runtime/error.h"
#include "runtime/index.h"
#include "runtime/random.h"

namespace trireme {

Plain::Plain(Level& model, const SamplingParams& sampling, uint64_t seed, int sequence)
    : text_(model, sequence), sampling_(sampling), seed_(seed) {
    validate(sampling);
}

void Plain::prefill(std::span<const int32_t> prompt, const Progress& progress) {
    text_.prefill(prompt, progress);
}

void Plain::adopt(std::span<const int32_t> prompt) {
    text_.adopt(prompt);
}

void Plain::read_on(std::span<const int32_t> text, const Progress& progress) {
    text_.read_on(text, progress);
}

void Plain::begin(uint32_t sample) {
    text_.begin();
    sample_ = sample;
    round_ = 0;
}

void Plain::resume(std::span<const int32_t> text, uint32_t sample, uint32_t drawn) {
    text_.resume(text);
    sample_ = sample;
    round_ = drawn;
}

std::span<const Proposed> Plain::propose(int64_t limit) {
    Level& model = text_.level();
    alone_.clear();
    if (draft(limit) == 0) return settle({});
    append_rows(alone_);
    model.extend(alone_.rows);
    return settle(
        {.end = static_cast<int64_t>(alone_.rows.size()), .drawn = model.logits().sample(sampling_, alone_.uniforms)});
}

int64_t Plain::draft(int64_t) {
    return text_.at_prompt() ? 0 : text_.pending();
}

void Plain::append_rows(RoundRows& all) {
    text_.append_pending(all.rows);
    all.uniforms.resize(all.rows.size(), uniform(seed_, {.sample = sample_, .round = round_++}));
    all.draws = true;
}

std::span<const Proposed> Plain::settle(const RoundResult& result) {
    if (text_.at_prompt()) {
        const std::array<double, 1> u = {uniform(seed_, {.sample = sample_, .round = round_++})};
        proposal_[0] = {.token = text_.level().logits().sample(sampling_, u)[0]};
    } else {
        text_.accept_rows();
        text_.commit();
        proposal_[0] = {.token = result.drawn[index(result.end - 1)]};
    }
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
