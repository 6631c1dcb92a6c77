#pragma once
/// PairScorer: log probabilities of continuations. A pair reads only the ids that differ from those of the pair before
/// it, and continuations of one context are read in one forward.

#include <cstdint>
#include <span>
#include <vector>

#include <nlohmann/json.hpp>

#include "decode/score.h"
#include "launch/commands/pair_ids.h"
#include "launch/run/engine.h"

namespace trireme {

class PairScorer {
  public:
    /// Uses sequence 0 of the engine's model. `engine` must outlive the object.
    explicit PairScorer(const Engine& engine) : engine_(engine) {}
    /// The number of pairs at the beginning of `pairs`, at least one, that score() takes together: they have the same
    /// context, and their continuations fit one forward. Pairs without ids are never taken with others.
    size_t together(std::span<const Pair* const> pairs) const;
    /// Scores the continuations of these pairs, of which together() gave the number. With an evicting cache the whole
    /// pair is read: its context as a prompt, its continuation token by token, as if it had been generated. Errors: as
    /// score().
    std::vector<Score> score(std::span<const Pair* const> pairs);
    /// Call it after anything else has used sequence 0, or after Engine::load().
    void forget() { held_.clear(); }

  private:
    bool branches() const;
    const Engine& engine_;
    std::vector<int32_t> held_;  // ids in the KV cache
};

/// The result of a pair: {"index", "logprob", "greedy", "tokens"}, and "truncated" if the pair lost its first ids.
nlohmann::ordered_json pair_result(int64_t index, const Pair& pair, const Score& score);

}  // namespace trireme
