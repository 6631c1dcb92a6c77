#pragma once
/// Conversion of the flags of KV cache eviction into a run's policy and its memory plan.

#include <cstdint>
#include <string>
#include <string_view>

#include "launch/flags/options.h"
#include "model/config.h"
#include "model/shard.h"
#include "offload/plan.h"

namespace trireme {

/// The policy that the flags request, for a prompt of `prompt_tokens` tokens. `returns`: the prompt is continued
/// several times. Errors: Exit::kConfig for contradicting numbers, Exit::kUsage if --spec is also given or heads cannot
/// share a set, Exit::kData for layers with a sliding window.
BoundedShape bounded_shape(const Options& options, const LlamaConfig& config, int64_t prompt_tokens, bool returns);
/// Like bounded_shape(), but for the h2o proposer of a chain; kFull if the chain has no Part::kH2o. Errors: as
/// bounded_shape(), and Exit::kUsage for rolling positions.
BoundedShape proposing_shape(const Options& options, const LlamaConfig& config, int64_t prompt_tokens, bool returns);
/// Describes the policy: "KV policy h2o: 512 tokens a head, 256 of them the most recent, ...". `what` begins the text.
std::string describe(const BoundedShape& shape, const LlamaConfig& config, std::string_view what = "KV policy");
/// The prompt length that an engine is loaded for before a prompt of `prompt_tokens` tokens is read, in a run whose
/// longest prompt has `longest` tokens. A budget may depend on it.
int64_t prompt_to_load(const Options& options, int64_t prompt_tokens, int64_t longest);
/// Warns of eviction flags that have no effect. `shape`: that of policy or chain; `text`: the sequence's length.
void warn_of_unused_bounded(const Options& options, const BoundedShape& shape, int64_t text);

/// Adds the memory of an evicting view to a plan.
void plan_bounded(PlanInput& input, const LlamaConfig& config, const Shard& shard, const BoundedShape& shape,
                  std::string_view backend, int threads);
/// Adds the memory of an h2o proposer's KV set to a plan, if the chain has one.
void plan_proposing(PlanInput& input, const LlamaConfig& config, const Shard& shard, const BoundedShape& shape,
                    std::string_view backend, int threads);

}  // namespace trireme
