#include "decode/plain.h"

#include <array>

#include "runtime/random.h"

namespace trireme {

Plain::Plain(Level& model, const SamplingParams& sampling, uint64_t seed)
    : model_(model), sampling_(sampling), seed_(seed), prompt_tokens_(model.length()) {
    validate(sampling);
    model_.save_logits();
}

void Plain::begin(uint32_t sample) {
    model_.truncate(0, prompt_tokens_);
    sample_ = sample;
    round_ = 0;
    token_ = -1;
}

std::span<const int32_t> Plain::round(int64_t) {
    if (token_ < 0) {
        model_.restore_logits();
    } else {
        const std::array<Row, 1> rows = {Row{.token = token_, .position = static_cast<int32_t>(model_.length())}};
        constexpr std::array<int32_t, 1> kFirst = {0};
        model_.forward(rows);
        model_.keep(0, kFirst);
    }
    const std::array<double, 1> u = {uniform(seed_, {.sample = sample_, .round = round_++})};
    token_ = model_.sample(sampling_, u)[0];
    return {&token_, 1};
}

}  // namespace trireme
