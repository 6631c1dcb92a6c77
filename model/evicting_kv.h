#pragma once
/// Evicting caches (offload/evicting/evicting_cache.h) of a model's rank, and heavy hitters of full caches. The model
/// supplies the factor of each query head's attention and the rotations of positions. It also supplies the exchange of
/// scores, and of keys if heads share slots, between ranks.

#include <memory>
#include <string_view>

#include "dist/comm.h"
#include "model/checkpoint/config.h"
#include "model/checkpoint/shard.h"
#include "model/level.h"
#include "offload/cache.h"
#include "offload/evicting/eviction_shape.h"
#include "offload/evicting/heavy_set.h"

namespace trireme {

/// Returns a maker of the evicting cache of `shard`'s rank. `comm` is that of the cache's level and must outlive the
/// cache; `config` must outlive the maker.
CacheMaker evicting_cache(const LlamaConfig& config, const Shard& shard, const EvictionShape& shape, Comm& comm);
/// Returns the memory of that cache on a device of `backend` with `threads` threads.
MemoryBytes evicting_memory(const LlamaConfig& config, const Shard& shard, const KvShape& kv,
                            const EvictionShape& shape, std::string_view backend, int threads);

/// Returns the heavy hitters of a sequence of a level's full cache; and their memory. All arguments but `shape` must
/// outlive the set.
std::unique_ptr<HeavySet> heavy_set(Device& device, Level& target, const EvictionShape& shape, Comm& comm,
                                    int64_t sequence = 0);
MemoryBytes heavy_memory(const LlamaConfig& config, const Shard& shard, const KvShape& kv, const EvictionShape& shape,
                         std::string_view backend, int threads);

}  // namespace trireme
