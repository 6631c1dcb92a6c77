#include "decode/plain.h"

#include <array>

#include "runtime/random.h"

namespace trireme {
namespace {

std::span<const float> row(const HostTensor& logits, int64_t r) {
    const Matrix<float> m = logits.as<float>();
    return {m.row(r), static_cast<size_t>(m.cols)};
}

}  // namespace

Plain::Plain(Llama& model, const SamplingParams& sampling, uint64_t seed)
    : model_(model), sampler_(sampling), seed_(seed), prompt_tokens_(model.length()) {
    const std::span<const float> last = row(model.logits(), 0);
    prompt_logits_.assign(last.begin(), last.end());
}

void Plain::begin(uint32_t sample) {
    model_.truncate(0, prompt_tokens_);
    sample_ = sample;
    round_ = 0;
    token_ = -1;
}

std::span<const int32_t> Plain::round(int64_t) {
    std::span<const float> logits = prompt_logits_;
    if (token_ >= 0) {
        const std::array<Row, 1> rows = {Row{.token = token_, .position = static_cast<int32_t>(model_.length())}};
        model_.forward(rows);
        constexpr std::array<int32_t, 1> kFirst = {0};
        model_.keep(0, kFirst);
        logits = row(model_.logits(), 0);
    }
    token_ = sampler_.sample(logits, uniform(seed_, {.sample = sample_, .round = round_++}));
    return {&token_, 1};
}

}  // namespace trireme
