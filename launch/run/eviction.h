#pragma once
/// Eviction of a run: converts the flags of KV cache eviction into an EvictionShape, checks it, and plans its memory.

#include <cstdint>
#include <string>
#include <string_view>

#include "launch/flags/options.h"
#include "model/checkpoint/config.h"
#include "model/checkpoint/shard.h"
#include "offload/plan/plan.h"

namespace trireme {

/// The policy of the model's own cache (--kv-policy), for a prompt of `prompt_tokens` tokens. `returns`: the prompt is
/// continued several times, so a copy of the retained tokens is kept. Errors: Exit::kConfig for contradicting numbers,
/// Exit::kUsage if --spec is also given or heads cannot share a set, Exit::kData for layers with a sliding window.
EvictionShape eviction_shape(const Options& options, const LlamaConfig& config, int64_t prompt_tokens, bool returns);
/// Like eviction_shape(), but for the h2o proposer of a chain; kFull if the chain has no Part::kH2o. Errors: as
/// eviction_shape(), and Exit::kUsage for rolling positions.
EvictionShape proposing_shape(const Options& options, const LlamaConfig& config, int64_t prompt_tokens, bool returns);
/// Checks the numbers for a model with `owners` owner layers. Errors: Exit::kConfig for a budget below 2, heavy >=
/// budget, observed queries >= budget, more sinks than slots for them, or an even --kv-pool.
void check_eviction(const EvictionShape& shape, int64_t owners);
/// Describes the policy for the log: "KV policy h2o: 512 tokens a head, 256 of them the most recent, ...". `what`
/// begins the text.
std::string describe(const EvictionShape& shape, const LlamaConfig& config, std::string_view what = "KV policy");
/// The prompt length to load an engine for, before it reads a prompt of `prompt_tokens` tokens, in a run whose longest
/// prompt has `longest` tokens. It is `prompt_tokens` if the budget depends on the prompt; else `longest`, so that the
/// engine need not be loaded again.
int64_t prompt_to_load(const Options& options, int64_t prompt_tokens, int64_t longest);
/// Warns of eviction flags that have no effect. `shape`: Engine::bounding() or eviction(). `text`: the most tokens of a
/// sequence; a budget of this size evicts nothing.
void warn_of_unused_eviction(const Options& options, const EvictionShape& shape, int64_t text);

/// Adds the memory of an evicting cache to a plan; does nothing for kFull.
void plan_evicting(PlanInput& input, const LlamaConfig& config, const Shard& shard, const EvictionShape& shape,
                   std::string_view backend, int threads);
/// Adds the memory of an h2o proposer's KV set to a plan, if the chain has one.
void plan_proposing(PlanInput& input, const LlamaConfig& config, const Shard& shard, const EvictionShape& shape,
                    std::string_view backend, int threads);

}  // namespace trireme
