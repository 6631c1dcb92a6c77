#pragma once
/// The tokens that every KV head keeps under a --kv-policy, after the prompt and after each step.

#include <cstdint>
#include <string>

#include "launch/report/kv_dump.h"
#include "runtime/buffer.h"

namespace trireme {

/// Lines: {"step":0,"layer":0,"head":0,"kept":[...],"scores":[...]}; of a conversation with "turn" before them.
class KeptDump final : public KvDump {
  public:
    /// Of an engine whose view is bounded; `prompt`: tokens before the first step.
    KeptDump(const Engine& engine, const Crew& crew, int64_t prompt);

    /// Of a conversation: turn `number` has been read, step 0 of its answer. Takes what is kept now.
    void turn(int64_t number);
    /// The answer of turn `number` begins at token `answer` of the text; what is kept now has been taken, by this run
    /// or by the one that is taken up.
    void resumed(int64_t number, int64_t answer);
    /// Once for each step.
    void take() override;

  private:
    std::string own_lines(int64_t step) const;

    int64_t prompt_, taken_ = -1, turn_ = -1;  // turn_: -1 where there are none
    Buffer<Space::kHost> tokens_, ranks_, scores_, counts_;
};

}  // namespace trireme
