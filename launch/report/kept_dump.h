#pragma once
/// Dump of the tokens that every KV head retains under a --kv-policy, after the prompt and after each step.

#include <cstdint>
#include <string>

#include "launch/report/kv_dump.h"
#include "runtime/buffer.h"

namespace trireme {

/// Lines: {"step":0,"layer":0,"head":0,"kept":[...],"scores":[...]}; in a conversation they begin with "turn".
class KeptDump final : public KvDump {
  public:
    /// `engine` must have an evicting view. `prompt` is the number of tokens before the first step.
    KeptDump(const Engine& engine, const RankGroup& rank_group, int64_t prompt);

    /// In a conversation: turn `number` has been read, step 0 of its answer. Dumps the retained tokens.
    void turn(int64_t number);
    /// The answer of turn `number` begins at token `answer` of the sequence. The current state has already been dumped,
    /// by this run or by the resumed one.
    void resumed(int64_t number, int64_t answer);
    /// Dumps each step once.
    void take() override;
    void skip() override;

  private:
    std::string own_lines(int64_t step) const;

    int64_t prompt_, taken_ = -1, turn_ = -1;  // turn_: -1 without a conversation
    Buffer<Space::kHost> tokens_, ranks_, scores_, counts_;
};

}  // namespace trireme
