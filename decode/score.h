#pragma once
/// score(): log probabilities of a text under a model, for `trireme score`: of the whole text, or in windows if it is
/// longer than the context.

#include <cstdint>
#include <span>
#include <vector>

#include "model/level.h"

namespace trireme {

/// A window of a text: ids [begin, end) are read into an empty cache, and ids [first, end) are scored.
struct ScoreWindow {
    int64_t begin = 0, end = 0, first = 0;
    int32_t instead = -1;  // replaces the id at `begin`; -1: no replacement
};

/// Hugging Face's sliding windows over a text of `tokens` ids: they begin at 0, stride, 2 stride, ... and have `window`
/// ids; the last one ends at the text's end and may be shorter. Each scores the ids that the previous window did not
/// contain; a window's first id has no logit. 1 <= stride <= window. Source: transformers docs, "Perplexity of
/// fixed-length models", with each token weighing the same.
std::vector<ScoreWindow> sliding_windows(int64_t tokens, int64_t window, int64_t stride);
/// llama-perplexity's chunks of `window` ids in a text of `tokens` ids; an incomplete last one is dropped. `bos`
/// replaces a chunk's first id (-1: no replacement), and the second half is scored: window - 1 - window / 2 ids.
std::vector<ScoreWindow> llama_chunks(int64_t tokens, int64_t window, int32_t bos);

/// lm-evaluation-harness's windows over a text of `tokens` ids, of which the first is the prefix token and is not
/// scored. Each of the others is scored once; a window has at most `context` ids before its last one. The last window
/// begins as early as this allows, the others one id before their first scored one. Source: neighbours.md, section 3.
std::vector<ScoreWindow> rolling_windows(int64_t tokens, int64_t context);

/// Natural-log probabilities of the scored ids, in order, given the ids before them in their window.
struct Score {
    std::vector<double> logprobs;
    double sum = 0;      // of logprobs
    bool greedy = true;  // each scored id is the most likely one
    /// exp(-sum / number of scored ids).
    double perplexity() const;
};

/// Scores a text, window by window; each is read into sequence 0, which is cleared before. A prefill reads a window's
/// first `prompt` ids, and one decode step each of the others, so that an evicting cache evicts after each. `each`, if
/// given, receives all logits in order, with the position of their first row in the text. Progress counts ids read.
/// Blocks until done. Errors: Exit::kConfig for ids outside the vocabulary; kData if a probability is not finite.
Score score(Level& model, std::span<const int32_t> ids, std::span<const ScoreWindow> windows,
            int64_t prompt = INT64_MAX, const EachLogits& each = {}, const Progress& progress = {});

/// Scores ids [first, end) of a text whose first `kept` ids sequence 0 holds already; 1 <= first, kept < first. Reads
/// the others as a prompt, in parts. Errors: as score().
Score score_rest(Level& model, std::span<const int32_t> ids, int64_t kept, int64_t first);

/// Scores several continuations of one context, whose first `kept` ids sequence 0 holds already; kept < context.size().
/// The context is read as a prompt, but for its last id. That one and the continuations are rows of one forward, in
/// which each continuation, without its last id, is a branch: at most kMaxRows rows. The context is then committed.
/// Errors: as score().
std::vector<Score> score_branches(Level& model, std::span<const int32_t> context, int64_t kept,
                                  std::span<const std::span<const int32_t>> continuations);

/// Scores the text in one window: all ids but the first. Errors: also Exit::kConfig for fewer than 2 ids.
Score score(Level& model, std::span<const int32_t> ids, int64_t prompt = INT64_MAX, const EachLogits& each = {},
            const Progress& progress = {});

}  // namespace trireme
