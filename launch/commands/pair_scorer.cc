#include "launch/commands/pair_scorer.h"

#include <algorithm>
#include <array>

#include "runtime/index.h"

namespace trireme {

Score PairScorer::score(const Pair& pair) {
    const auto n = static_cast<int64_t>(pair.ids.size());
    Level& model = engine_.model();
    if (engine_.eviction().evicts()) {
        const std::array<ScoreWindow, 1> whole = {{{.begin = 0, .end = n, .first = pair.begin}}};
        return trireme::score(model, pair.ids, whole, pair.begin);
    }
    int64_t same = 0;
    // With layers that read later ones, a prompt's keys depend on where its reading began.
    if (!model.config().layer_map.upward()) {
        same = std::ranges::mismatch(held_, pair.ids).in1 - held_.begin();
    }
    held_.clear();  // if the score fails
    Score score = score_rest(model, pair.ids, std::min(same, pair.begin - 1), pair.begin);
    held_.assign(pair.ids.begin(), pair.ids.begin() + n - 1);
    return score;
}

}  // namespace trireme
