#include "decode/score.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "decode/prompt_ids.h"
#include "runtime/error.h"

namespace trireme {

namespace {

void read_by_steps(Level& model, const std::vector<int32_t>& ids, const Level::EachLogits& each,
                   const Progress& progress) {
    constexpr int64_t kReported = 64;  // tokens between two reports
    const auto n = static_cast<int64_t>(ids.size());
    const std::array<int32_t, 1> kept = {0};
    model.prefill(0, std::span(ids).first(1), {}, each);
    for (int64_t at = 1; at < n; ++at) {
        const std::array<Row, 1> row = {
            {{.token = ids[static_cast<size_t>(at)], .position = static_cast<int32_t>(at)}}};
        model.forward(row);
        model.keep(0, kept);
        each(at, model.logits());
        if (progress && at % kReported == 0) progress(at, n);
    }
    if (progress) progress(n, n);
}

}  // namespace

Score score(Level& model, const std::vector<int32_t>& ids, ReadBy by, const Level::EachLogits& each,
            const Progress& progress) {
    require(ids.size() >= 2, Exit::kConfig, "score: {} tokens; at least 2 are needed", ids.size());
    check_ids(ids, model.config().vocab);

    Score out;
    model.truncate(0, 0);
    const Level::EachLogits take = [&](int64_t position, const HostTensor& logits) {
        const Matrix<float> m = logits.as<float>();
        for (int64_t r = 0; r < m.rows && position + r + 1 < static_cast<int64_t>(ids.size()); ++r) {
            double top = -std::numeric_limits<double>::infinity(), sum = 0;
            for (int64_t c = 0; c < m.cols; ++c) top = std::max(top, static_cast<double>(m(r, c)));
            for (int64_t c = 0; c < m.cols; ++c) sum += std::exp(static_cast<double>(m(r, c)) - top);
            const double target = static_cast<double>(m(r, ids[static_cast<size_t>(position + r + 1)]));
            out.logprobs.push_back(target - top - std::log(sum));
        }
        if (each) each(position, logits);
    };
    if (by == ReadBy::kSteps) {
        read_by_steps(model, ids, take, progress);
    } else {
        model.prefill(0, ids, progress, take);
    }
    double total = 0;
    for (const double x : out.logprobs) total += x;
    require(std::isfinite(total), Exit::kData,
            "score: a log probability is not finite: the weights overflow in this precision; try f32 weights");
    out.perplexity = std::exp(-total / static_cast<double>(out.logprobs.size()));
    return out;
}

}  // namespace trireme
