#pragma once
/// HeadMean: replaces the scores of a layer's KV heads by their mean, so that all heads, on all ranks, retain the same
/// tokens (TOVA, arXiv 2401.06104).

#include <cstdint>

#include "dist/comm.h"
#include "kernels/kernels.h"
#include "model/checkpoint/config.h"
#include "model/checkpoint/shard.h"
#include "runtime/buffer.h"

namespace trireme {

class HeadMean {
  public:
    /// For weights of at most `owners` owners, and at most `most` elements for each KV head. Errors: Exit::kOs.
    HeadMean(Device& device, Stream& stream, Comm& comm, const LlamaConfig& config, const Shard& shard, int64_t owners,
             int64_t most);
    static size_t memory(const Shard& shard, int64_t owners, int64_t most);

    /// weights f32 [owners, this rank's kv_heads, n]: each becomes the mean over all KV heads of the model. A KV head
    /// that several ranks hold must have equal weights on them (HeadExchange). Enqueues.
    void spread(Kernels& op, const Tensor& weights);

  private:
    Stream& stream_;
    Comm& comm_;
    int64_t kv_heads_, most_;
    Arena<Space::kDevice> device_;
    Tensor sums_;            // f32 [most]
    Tensor shares_, nulls_;  // f32, i32 [kv_heads]
    Tensor owners_;          // i32 [owners * kv_heads]: the owner whose mean each row of weights becomes
};

}  // namespace trireme
