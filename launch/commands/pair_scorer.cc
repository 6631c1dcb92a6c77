#include "launch/commands/pair_scorer.h"

#include <algorithm>
#include <array>

#include "runtime/index.h"

namespace trireme {
namespace {

std::span<const int32_t> context_of(const Pair& pair) {
    return std::span(pair.ids).first(index(pair.begin));
}

/// Rows of a forward that scores the pair's continuation after its first token.
int64_t rows_of(const Pair& pair) {
    return std::ssize(pair.ids) - pair.begin - 1;
}

/// Whether the pair may be a branch: it has a context to share, and fits one forward. Depends on the pair alone, so
/// that its score does not depend on the other pairs.
bool may_branch(const Pair& pair) {
    return pair.begin > 1 && rows_of(pair) + 1 <= kMaxRows;
}

}  // namespace

/// Whether a context may be read in parts, and continuations as branches of one forward. An evicting cache evicts after
/// each token. With layers that read later ones, a prompt's keys depend on where its reading began. The KV sets of a
/// chain follow the sequence, and do not return to an arbitrary length.
bool PairScorer::branches() const {
    if (engine_.eviction().evicts() || engine_.model().config().layer_map.upward()) return false;
    if (engine_.proposing() == nullptr) return true;
    return std::ranges::none_of(engine_.proposing()->sets(), [](const auto& set) { return set.second != nullptr; });
}

size_t PairScorer::together(std::span<const Pair* const> pairs) const {
    const Pair& first = *pairs.front();
    if (!branches() || !may_branch(first)) return 1;
    int64_t rows = 1;
    size_t n = 0;
    for (const Pair* pair : pairs) {
        rows += rows_of(*pair);
        if (rows > kMaxRows || !std::ranges::equal(context_of(*pair), context_of(first))) break;
        ++n;
    }
    return n;
}

std::vector<Score> PairScorer::score(std::span<const Pair* const> pairs) {
    const Pair& first = *pairs.front();
    const auto n = static_cast<int64_t>(first.ids.size());
    Level& model = engine_.model();
    if (!branches()) {
        const std::array<ScoreWindow, 1> whole = {{{.begin = 0, .end = n, .first = first.begin}}};
        return {trireme::score(model, first.ids, whole, engine_.eviction().evicts() ? first.begin : INT64_MAX)};
    }
    const int64_t same = std::ranges::mismatch(held_, first.ids).in1 - held_.begin();
    const int64_t kept = std::min(same, first.begin - 1);
    held_.clear();  // if the score fails
    if (!may_branch(first)) {
        const Score score = score_rest(model, first.ids, kept, first.begin);
        held_.assign(first.ids.begin(), first.ids.begin() + n - 1);
        return {score};
    }
    std::vector<std::span<const int32_t>> continuations;
    for (const Pair* pair : pairs) continuations.push_back(std::span(pair->ids).subspan(index(pair->begin)));
    std::vector<Score> scores = score_branches(model, context_of(first), kept, continuations);
    // The context's last id was a row of the forward: its keys may differ from a prompt's in the last bits, so another
    // pair reads it again.
    held_.assign(first.ids.begin(), first.ids.begin() + first.begin - 1);
    return scores;
}

nlohmann::ordered_json pair_result(int64_t index, const Pair& pair, const Score& score) {
    nlohmann::ordered_json line = {
        {"index", index}, {"logprob", score.sum}, {"greedy", score.greedy}, {"tokens", score.logprobs.size()}};
    if (pair.truncated) line["truncated"] = true;
    return line;
}

}  // namespace trireme
