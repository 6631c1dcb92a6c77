#pragma once
/// Laws that outlive the logits they are of: a level that proposes several tokens keeps what it drew them from until
/// its verifier has decided.

#include <cstdint>

#include "decode/proposer.h"
#include "runtime/buffer.h"

namespace trireme {

class HeldLaws {
  public:
    /// Room for n laws of `level`'s. Errors: Exit::kOs.
    HeldLaws(Device& device, Level& level, int64_t n);
    ~HeldLaws();  // waits for laws that are on their way here
    static size_t bytes_for(const Shard& shard, int64_t n);

    int64_t size() const { return n_; }
    /// Keeps the law of a row of the level's current logits in this slot. Enqueues only.
    Law hold(int64_t slot, int64_t row);

  private:
    Level& level_;
    int64_t n_, parts_, cols_;
    Buffer<Space::kDevice> logits_;  // f32 [n, parts, cols]
    Buffer<Space::kDevice> laws_;    // i64 [n, kRowLawWords]
};

}  // namespace trireme
