#pragma once
/// DraftDistributions: copies of the distributions that a level sampled its proposed tokens from. Its verifier needs
/// them to accept or reject the tokens, after later forwards of the level have replaced the logits.

#include <cstdint>

#include "decode/proposer.h"
#include "runtime/buffer.h"

namespace trireme {

class DraftDistributions {
  public:
    /// Allocates n slots for distributions of `level`. Errors: Exit::kOs.
    DraftDistributions(Device& device, Level& level, int64_t n);
    ~DraftDistributions();  // waits for copies in flight
    static size_t bytes_for(const Shard& shard, int64_t n);

    int64_t size() const { return n_; }
    /// Copies the distribution of a row of the level's current logits, which must have been computed
    /// (Logits::distribution), into this slot. Enqueues only. The result is valid until the slot is used again.
    Distribution hold(int64_t slot, int64_t row);

  private:
    Level& level_;
    int64_t n_, parts_, cols_;
    Buffer<Space::kDevice> logits_;         // f32 [n, parts, cols]
    Buffer<Space::kDevice> distributions_;  // i64 [n, kRowDistributionWords]
};

}  // namespace trireme
