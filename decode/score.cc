#include "decode/score.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "decode/prompt_ids.h"
#include "runtime/error.h"
#include "runtime/index.h"

namespace trireme {
namespace {

void take(std::span<const float> row, int32_t wanted, Score& out) {
    const auto likeliest = std::max_element(row.begin(), row.end());  // the lowest id among equal logits
    const auto top = static_cast<double>(*likeliest);
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x) - top);
    const float own = row[index(wanted)];
    out.logprobs.push_back(static_cast<double>(own) - top - std::log(sum));
    out.sum += out.logprobs.back();
    out.greedy = out.greedy && likeliest - row.begin() == wanted;
}

/// Takes the log probabilities of ids [first, ids.size()) that these logits give; row 0 is that of ids[position].
void take_rows(const HostTensor& logits, int64_t position, std::span<const int32_t> ids, int64_t first, Score& out) {
    const Matrix<float> m = logits.as<float>();
    for (int64_t r = 0; r < m.rows; ++r) {
        const int64_t next = position + r + 1;
        if (next < first || next >= std::ssize(ids)) continue;
        take({m.row(r), static_cast<size_t>(m.cols)}, ids[index(next)], out);
    }
}

void require_finite(const Score& out) {
    require(std::isfinite(out.sum), Exit::kData,
            "score: a log probability is not finite: the weights overflow in this precision; try f32 weights");
}

void read(Level& model, std::span<const int32_t> ids, int64_t prompt, const EachLogits& each,
          const Progress& progress) {
    constexpr int64_t kReported = 64;  // tokens between two reports
    const auto n = static_cast<int64_t>(ids.size());
    const std::array<int32_t, 1> kept = {0};
    prompt = std::clamp<int64_t>(prompt, 1, n);
    model.truncate(0, 0);
    model.prefill(0, ids.first(index(prompt)), prompt == n ? progress : Progress(), each);
    if (prompt == n) return;
    for (int64_t at = prompt; at < n; ++at) {
        const std::array<Row, 1> row = {{{.token = ids[index(at)], .position = static_cast<int32_t>(at)}}};
        model.forward(row);
        model.keep(0, kept);
        each(at, model.logits().host());
        if (progress && at % kReported == 0) progress(at, n);
    }
    if (progress) progress(n, n);
}

}  // namespace

double Score::perplexity() const {
    return std::exp(-sum / static_cast<double>(logprobs.size()));
}

std::vector<ScoreWindow> sliding_windows(int64_t tokens, int64_t window, int64_t stride) {
    std::vector<ScoreWindow> all;
    for (int64_t begin = 0, seen = 0; seen < tokens; begin += stride) {
        const int64_t end = std::min(begin + window, tokens);
        all.push_back({.begin = begin, .end = end, .first = std::max(seen, begin + 1)});
        seen = end;
    }
    return all;
}

std::vector<ScoreWindow> llama_chunks(int64_t tokens, int64_t window, int32_t bos) {
    std::vector<ScoreWindow> all;
    for (int64_t begin = 0; begin + window <= tokens; begin += window) {
        all.push_back({.begin = begin, .end = begin + window, .first = begin + window / 2 + 1, .instead = bos});
    }
    return all;
}

std::vector<ScoreWindow> rolling_windows(int64_t tokens, int64_t context) {
    std::vector<ScoreWindow> all;
    for (int64_t seen = 1; seen < tokens;) {
        const int64_t end = std::min(seen + context, tokens);
        all.push_back({.begin = std::max<int64_t>(0, end - context - 1), .end = end, .first = seen});
        seen = end;
    }
    return all;
}

Score score_rest(Level& model, std::span<const int32_t> ids, int64_t kept, int64_t first) {
    check_ids(ids, model.config().vocab);
    const auto n = static_cast<int64_t>(ids.size());
    check(first >= 1 && first < n && kept >= 0 && kept < first && model.length() >= kept,
          "score: {} ids kept and {} before the scored ones, of {}", kept, first, n);
    Score out;
    model.truncate(0, kept);
    // A long context is read without its logits.
    if (first - 1 - kept > kMaxRows) {
        model.prefill(0, ids.subspan(index(kept), index(first - 1 - kept)));
        kept = first - 1;
    }
    model.prefill(0, ids.subspan(index(kept), index(n - 1 - kept)), {},
                  [&](int64_t position, const HostTensor& logits) { take_rows(logits, position, ids, first, out); });
    require_finite(out);
    return out;
}

std::vector<Score> score_branches(Level& model, std::span<const int32_t> context, int64_t kept,
                                  std::span<const std::span<const int32_t>> continuations) {
    const auto n = static_cast<int64_t>(context.size());
    check_ids(context, model.config().vocab);
    model.truncate(0, kept);
    if (n - 1 > kept) model.prefill(0, context.subspan(index(kept), index(n - 1 - kept)));
    std::vector<Row> rows = {{.token = context.back(), .position = static_cast<int32_t>(n - 1)}};
    for (const std::span<const int32_t> ids : continuations) {
        check_ids(ids, model.config().vocab);
        for (size_t i = 0; i + 1 < ids.size(); ++i) {
            rows.push_back({.token = ids[i],
                            .position = static_cast<int32_t>(n + static_cast<int64_t>(i)),
                            .parent = i == 0 ? 0 : static_cast<int32_t>(rows.size()) - 1});
        }
    }
    model.forward(rows);
    const HostTensor logits = model.logits().host();
    const Matrix<float> m = logits.as<float>();
    std::vector<Score> scores;
    int64_t row = 1;
    for (const std::span<const int32_t> ids : continuations) {
        Score& score = scores.emplace_back();
        for (size_t i = 0; i < ids.size(); ++i) {
            take({m.row(i == 0 ? 0 : row++), static_cast<size_t>(m.cols)}, ids[i], score);
        }
        require_finite(score);
    }
    const std::array<int32_t, 1> last_of_context = {0};
    model.keep(0, last_of_context);
    return scores;
}

Score score(Level& model, std::span<const int32_t> ids, std::span<const ScoreWindow> windows, int64_t prompt,
            const EachLogits& each, const Progress& progress) {
    check_ids(ids, model.config().vocab);
    Score out;
    int64_t all = 0, done = 0;
    for (const ScoreWindow& w : windows) all += w.end - w.begin;
    std::vector<int32_t> text;
    for (const ScoreWindow& w : windows) {
        const int64_t n = w.end - w.begin;
        if (w.first >= w.end) {  // nothing to score: a window's first id has no logit
            done += n;
            continue;
        }
        text.assign(ids.begin() + w.begin, ids.begin() + w.end);
        if (w.instead >= 0) text[0] = w.instead;
        const EachLogits keep = [&](int64_t position, const HostTensor& logits) {
            take_rows(logits, position, text, w.first - w.begin, out);
            if (each) each(w.begin + position, logits);
        };
        const Progress part = [&](int64_t at, int64_t of) {
            if (progress) progress(done + (at < of ? at : n), all);
        };
        // The logits after the last id are computed only for `each`.
        read(model, std::span(text).first(text.size() - (each ? 0 : 1)), prompt, keep, part);
        done += n;
    }
    require_finite(out);
    return out;
}

Score score(Level& model, std::span<const int32_t> ids, int64_t prompt, const EachLogits& each,
            const Progress& progress) {
    const auto n = static_cast<int64_t>(ids.size());
    require(n >= 2, Exit::kConfig, "score: {} tokens; at least 2 are needed", n);
    const std::array<ScoreWindow, 1> whole = {{{.begin = 0, .end = n, .first = 1}}};
    return score(model, ids, whole, prompt, each, progress);
}

}  // namespace trireme
