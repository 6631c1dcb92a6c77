#pragma once
/// HeadExchange: combines the scores of KV heads that several ranks hold, each with some of the query heads, so that
/// all of these ranks choose alike.

#include <cstdint>

#include "dist/comm.h"
#include "kernels/kernels.h"
#include "model/checkpoint/config.h"
#include "model/checkpoint/shard.h"
#include "runtime/buffer.h"

namespace trireme {

class HeadExchange {
  public:
    /// Whether several of `ranks` ranks hold the same KV head.
    static bool needed(const LlamaConfig& config, int ranks);
    /// For weights of at most `most` elements for each KV head. Errors: Exit::kOs.
    HeadExchange(Device& device, Stream& stream, Comm& comm, const Shard& shard, int64_t kv_heads, int64_t most,
                 HeadPool pool);
    static size_t memory(int64_t kv_heads, int64_t most, int ranks);

    /// weights f32 [owners, this rank's kv_heads, n]: each becomes the sum, in rank order, or the largest, over the
    /// ranks that hold the head. Enqueues.
    void exchange(Kernels& op, const Tensor& weights);

  private:
    Stream& stream_;
    Comm& comm_;
    const Shard shard_;
    int64_t kv_heads_, most_;
    HeadPool pool_;
    Arena<Space::kDevice> device_;
    Tensor zeros_, part_, gathered_;  // f32 [kv_heads * most] twice, [ranks, kv_heads * most]
    Tensor ones_, nulls_;             // f32, i32 [ranks]
};

}  // namespace trireme
