#pragma once
/// Memory footprint of a rank's model, computed before anything is loaded. Pure arithmetic.

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/level.h"
#include "offload/plan/plan.h"

namespace trireme {

KvShape kv_shape(const LlamaConfig& config, const Shard& shard, const LevelOptions& options);
/// `blocks`: some matrices are in blocks.
KernelLimits kernel_limits(const LlamaConfig& config, const Shard& shard, int64_t rows, bool blocks);
/// Number of batches of kPrefillRows rows for a prompt.
int64_t prefill_batches(int64_t tokens);
/// Memory of a prompt's residual streams in a layer-by-layer prefill, and of the input of iterated layers.
MemoryBytes hidden_memory(const LlamaConfig& config, int64_t tokens, bool on_host);

/// Returns the plan's input for a model and one level with these options, on a device of `backend` with `threads`
/// threads. `weights`: the weights' type. Only `ring` and `span_bytes` of options.residency are read, because the plan
/// decides the KV placement. `on_chip`: as PlanInput::on_chip.
PlanInput plan_input(const LlamaConfig& config, const Shard& shard, const WeightFormat& weights,
                     const LevelOptions& options, std::string_view backend, int threads, int64_t on_chip);
/// Returns the input for the cost of a decode forward of several rows with `passes` passes over iterated layers. Each
/// pass reads their weights, keys and values. Memory use does not depend on it.
PlanInput with_passes(PlanInput input, const LlamaConfig& config, const Shard& shard, const WeightFormat& weights,
                      int64_t passes);
/// Returns the memory of a level of one sequence, without its weights and KV tiles: activations, scratch, tables.
/// options.sequences and options.common are not read.
MemoryBytes level_work(const LlamaConfig& config, const Shard& shard, const WeightFormat& weights,
                       const LevelOptions& options, std::string_view backend, int threads);
/// Returns the shard that needs the most memory.
Shard largest_shard(const LlamaConfig& config, int ranks);

}  // namespace trireme
