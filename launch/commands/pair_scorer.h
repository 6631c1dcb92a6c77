#pragma once
/// PairScorer: log probabilities of continuations, one pair after the other. A pair reads only the ids that differ from
/// those of the pair before it, so several continuations of one context read the context once.

#include <cstdint>
#include <vector>

#include "decode/score.h"
#include "launch/commands/pair_ids.h"
#include "launch/run/engine.h"

namespace trireme {

class PairScorer {
  public:
    /// Uses sequence 0 of the engine's model. `engine` must outlive the object.
    explicit PairScorer(const Engine& engine) : engine_(engine) {}
    /// Scores the pair's continuation. With an evicting cache the whole pair is read: its context as a prompt, its
    /// continuation token by token, as if it had been generated. Errors: as score().
    Score score(const Pair& pair);
    /// Call it after anything else has used sequence 0, or after Engine::load().
    void forget() { held_.clear(); }

  private:
    const Engine& engine_;
    std::vector<int32_t> held_;  // ids in the KV cache
};

}  // namespace trireme
