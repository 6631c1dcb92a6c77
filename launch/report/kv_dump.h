#pragma once
/// --kv-dump: what every KV head keeps, after the prompt and after each step, a JSON object a line.

#include <cstdint>
#include <string>
#include <vector>

#include "launch/run/crew.h"
#include "launch/run/engine.h"
#include "runtime/buffer.h"

namespace trireme {

class KvDump {
  public:
    /// Of an engine whose view is bounded; `prompt`: tokens before the first step. All ranks, or none.
    KvDump(const Engine& engine, const Crew& crew, int64_t prompt);

    /// Of a conversation: turn `number` has been read, step 0 of its answer. Takes what is kept now.
    void turn(int64_t number);
    /// The answer of turn `number` begins at token `answer` of the text; what is kept now has been taken, by this run
    /// or by the one that is taken up.
    void resumed(int64_t number, int64_t answer);
    /// Takes what is kept now, if a token has come since the last time. Waits for the device; makes a control call.
    void take();
    /// {"step":0,"layer":0,"head":0,"kept":[...],"scores":[...]} for each step, layer that has keys and values, and KV
    /// head of the model, in this order; of a conversation with "turn" before them. On rank 0, elsewhere empty.
    const std::string& lines() const { return lines_; }

  private:
    std::string own_lines(int64_t step) const;

    const Engine& engine_;
    const Crew& crew_;
    int64_t prompt_, taken_ = -1, turn_ = -1;  // turn_: -1 where there are none
    std::vector<LayerIndex> owners_;
    int64_t first_head_,
        heads_;  // of this rank's KV heads those that no lower rank holds: number in the model, how many
    Buffer<Space::kHost> tokens_, ranks_, scores_, counts_;
    std::string lines_;
};

}  // namespace trireme
