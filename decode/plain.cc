#include "decode/plain.h"

#include "runtime/error.h"
#include "runtime/random.h"

namespace trireme {

Plain::Plain(Level& model, const SamplingParams& sampling, uint64_t seed)
    : model_(model), sampling_(sampling), seed_(seed) {
    validate(sampling);
}

void Plain::prefill(std::span<const int32_t> prompt, const Progress& progress) {
    model_.truncate(0, 0);
    model_.prefill(0, prompt, progress);
    model_.save_logits();
    prompt_tokens_ = model_.length();
}

void Plain::begin(uint32_t sample) {
    model_.truncate(0, prompt_tokens_);
    sample_ = sample;
    round_ = 0;
    last_ = -1;
}

std::span<const Proposed> Plain::propose(int64_t) {
    if (last_ < 0) {
        model_.restore_logits();
    } else {
        const std::array<Row, 1> rows = {Row{.token = last_, .position = static_cast<int32_t>(model_.length())}};
        constexpr std::array<int32_t, 1> kFirst = {0};
        model_.forward(rows);
        model_.keep(0, kFirst);
    }
    const std::array<double, 1> u = {uniform(seed_, {.sample = sample_, .round = round_++})};
    proposal_[0] = {.token = model_.sample(sampling_, u)[0],
                    .law = {.logits = model_.device_logits(), .rule = rule_of(sampling_)}};
    return proposal_;
}

void Plain::commit(std::span<const int32_t> path, int32_t next) {
    check(path.size() == 1 && path[0] == 0 && next < 0, "plain: {} tokens and {} behind its own one", path.size(),
          next);
    last_ = proposal_[0].token;
}

}  // namespace trireme
