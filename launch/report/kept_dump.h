#pragma once
/// KeptDump: the dump (--kv-dump) of the tokens that every KV head retains under a --kv-policy, after the prompt and
/// after each decode step.

#include <cstdint>
#include <string>

#include "launch/report/kv_dump.h"
#include "runtime/buffer.h"

namespace trireme {

/// Lines: {"step":0,"layer":0,"head":0,"kept":[...],"scores":[...]}; in a conversation they begin with "turn". "step"
/// counts tokens after the prompt, or after the turn was read. "kept" are positions in the sequence, the oldest first.
class KeptDump final : public KvDump {
  public:
    /// `engine` must have an evicting cache. `prompt` is the number of tokens before step 1.
    KeptDump(const Engine& engine, const RankGroup& rank_group, int64_t prompt);

    /// Call it when turn `number` (from 0) of a conversation has been read. Dumps step 0 of this turn.
    void turn(int64_t number);
    /// Call it before turn `number`. It has an effect if the run that this one resumes has already read this turn, so
    /// that turn() is not called. The answer then begins at token `answer` of the sequence, and its current step has
    /// been dumped.
    void resumed(int64_t number, int64_t answer);
    /// Dumps the current step, unless it has been dumped.
    void take() override;
    void skip() override;

  private:
    std::string own_lines(int64_t step) const;

    int64_t prompt_, taken_ = -1, turn_ = -1;  // turn_: -1 without a conversation
    Buffer<Space::kHost> tokens_, ranks_, scores_, counts_;
};

}  // namespace trireme
