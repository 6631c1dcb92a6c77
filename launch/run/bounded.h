#pragma once
/// From the flags of bounded KV to the policy of a run and to its plan.

#include <cstdint>
#include <string>
#include <string_view>

#include "launch/flags/options.h"
#include "model/config.h"
#include "model/shard.h"
#include "offload/plan.h"

namespace trireme {

/// The policy that the flags ask for, of a prompt of so many tokens. `returns`: the prompt is continued several times.
/// Errors: Exit::kConfig where numbers contradict each other, Exit::kUsage beside a chain that proposes, Exit::kData
/// for layers that see a sliding window.
BoundedShape bounded_shape(const Options& options, const LlamaConfig& config, int64_t prompt_tokens, bool returns);
/// The same of a chain that has Part::kH2o, for heads of the model that it proposes to; of others kFull. Errors:
/// Exit::kConfig and kData as above, kUsage for positions that roll.
BoundedShape proposing_shape(const Options& options, const LlamaConfig& config, int64_t prompt_tokens, bool returns);
/// "h2o: 512 tokens a head, 256 of them by score, ..."; `what`: who keeps them.
std::string describe(const BoundedShape& shape, const LlamaConfig& config, std::string_view what = "KV policy");
/// Of a run with several prompts, at most `longest` tokens long: the length that an engine is loaded for before it
/// reads one of so many. A budget may depend on it.
int64_t prompt_to_load(const Options& options, int64_t prompt_tokens, int64_t longest);
/// Flags that neither policy nor chain reads, and numbers that change nothing. `shape`: that of either of them.
void warn_of_unused_bounded(const Options& options, const BoundedShape& shape, int64_t text);

/// Puts what such a view takes into a plan.
void plan_bounded(PlanInput& input, const LlamaConfig& config, const Shard& shard, const BoundedShape& shape,
                  std::string_view backend, int threads);
/// The same of the heads that a chain proposes by, where it does.
void plan_proposing(PlanInput& input, const LlamaConfig& config, const Shard& shard, const BoundedShape& shape,
                    std::string_view backend, int threads);

}  // namespace trireme
