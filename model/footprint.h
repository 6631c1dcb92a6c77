#pragma once
/// How much memory a rank's model takes, computed before anything is loaded. Pure arithmetic.

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
/// A prompt's residual streams, where it goes layer by layer, and beside them what comes into iterated layers.
MemoryBytes hidden_memory(const LlamaConfig& config, int64_t tokens, bool on_host);

/// The plan's input for a model with weights of type `weights` and one level with these options, on a device of
/// `backend` with `threads` threads. Of options.residency only `ring` and `span_bytes` are read: where KV lies is for
/// the plan to decide. `on_chip`: as PlanInput::on_chip.
PlanInput plan_input(const LlamaConfig& config, const Shard& shard, DType weights, const LevelOptions& options,
                     std::string_view backend, int threads, int64_t on_chip);
/// The input for what a decode forward of several rows costs that passes so often over iterated layers: it reads their
/// weights, keys and values that many times. How memory is used does not depend on it.
PlanInput with_passes(PlanInput input, const LlamaConfig& config, const Shard& shard, DType weights, int64_t passes);
/// What a level takes beside its weights and the tiles of its KV: activations, scratch, tables.
MemoryBytes level_work(const LlamaConfig& config, const Shard& shard, const LevelOptions& options,
                       std::string_view backend, int threads);
/// The shard that needs most memory.
Shard largest_shard(const LlamaConfig& config, int ranks);

}  // namespace trireme
