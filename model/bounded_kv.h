#pragma once
/// A bounded view (offload/policies/bounded_view.h) of a model's rank, or heavy hitters of a full one: what its query
/// heads count for, how its keys are rotated, and KV heads that other ranks hold, too.

#include <memory>
#include <string_view>

#include "dist/comm.h"
#include "model/config.h"
#include "model/level.h"
#include "model/shard.h"
#include "offload/policies/bounded_shape.h"
#include "offload/policies/heavy_set.h"
#include "offload/view.h"

namespace trireme {

/// Makes the view of the rank that `shard` is; `comm` is that of its level. Both are used as long as the view lives,
/// and `config` until it is made.
ViewMaker bounded_view(const LlamaConfig& config, const Shard& shard, const BoundedShape& shape, Comm& comm);
/// What that takes on a device of `backend` with `threads` threads.
MemoryBytes bounded_memory(const LlamaConfig& config, const Shard& shard, const KvShape& kv, const BoundedShape& shape,
                           std::string_view backend, int threads);

/// Heavy hitters of a level's full view; the same of them. All arguments but `shape` are used as long as the set lives.
std::unique_ptr<HeavySet> heavy_set(Device& device, Level& target, const BoundedShape& shape, Comm& comm);
MemoryBytes heavy_memory(const LlamaConfig& config, const Shard& shard, const KvShape& kv, const BoundedShape& shape,
                         std::string_view backend, int threads);

}  // namespace trireme
