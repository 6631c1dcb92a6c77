#pragma once
/// What a rank's model asks of memory, known before there is one. Pure arithmetic.

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/level.h"
#include "offload/plan.h"

namespace trireme {

KvShape kv_shape(const LlamaConfig& config, const Shard& shard, const LevelOptions& options);
KernelLimits kernel_limits(const LlamaConfig& config, const Shard& shard, int64_t rows);
/// Batches of kPrefillRows rows that a prompt is computed in.
int64_t prefill_batches(int64_t tokens);

/// A model held as `weights` and a level with these options, on a device of `backend` with `threads` threads. Of
/// options.residency the ring alone is looked at: where the layers' KV lies is what the plan is to find.
PlanInput plan_input(const LlamaConfig& config, const Shard& shard, DType weights, const LevelOptions& options,
                     std::string_view backend, int threads, int64_t on_chip);
/// A draft model, whole on every rank, that sees a window of so many tokens: device bytes.
size_t draft_bytes(const LlamaConfig& config, DType weights, const LevelOptions& options, std::string_view backend,
                   int threads, int64_t window);
/// The shard that needs most memory.
Shard largest_shard(const LlamaConfig& config, int ranks);

}  // namespace trireme
