#pragma once
/// ChainPlan: what speculation adds to `trireme plan`: memory of the proposing levels, and the forecast of a round.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/spec_costs.h"
#include "launch/flags/options.h"
#include "model/footprint.h"

namespace trireme {

/// Reads configs and --spec-costs, but no weights. Rank 0 has one, also if options.spec is empty.
class ChainPlan {
  public:
    /// Plans the chain of options.spec for a model with this config and weights of type `weights`, on a device of
    /// `backend` with `threads` threads. `level`: options of the model's own level. `options` and `config` must outlive
    /// the object. Errors: Exit::kUsage if --model-draft is missing, or if the number of rates of --accept-rate is not
    /// that of the verifying levels; as retrieval_shape, proposing_shape, open_config and read_spec_costs.
    ChainPlan(const Options& options, const LlamaConfig& config, const WeightFormat& weights, const LevelOptions& level,
              std::string_view backend, int threads);

    /// The retrieval shape; its budget is 0 if the chain does not retrieve.
    RetrievalShape retrieval() const { return retrieval_; }
    /// The policy of the heavy-hitter set of a chain with h2o; kFull: the chain has none.
    const EvictionShape& heavy() const { return heavy_; }
    /// Memory of the proposing levels on a rank that holds `shard` of the model, without retrieved and heavy-hitter
    /// sets. `retrieves`: include the retrieving level.
    MemoryBytes proposing(const LevelOptions& level, const Shard& shard, bool retrieves) const;

    /// The device's rate in GB/s that follows from the full model's cost of one row in --spec-costs; 0: no such costs.
    double measured_gbps(const PlanInput& in) const;
    /// Decoding without speculation, which a round is compared with.
    struct Plain {
        std::string name;     // "none@auto"
        int64_t on_chip = 0;  // owner layers on chip
        double step_ms = 0;   // time of a decode step
    };
    /// Lines for the user: the forecast of a round on the rank that holds `shard`, and its speed-up over each of
    /// `plain`. Empty if --accept-rate is not given or the machine's rates are not known; one line for a tree, which is
    /// not forecast.
    std::vector<std::string> round_lines(const PlanInput& in, const Shard& shard, const Plan& plan,
                                         const Machine& machine, const std::vector<Plain>& plain) const;
    /// Returns `machine` with effective rates for a step of `rows` rows at context length `length`. device_gbps is
    /// lower if products take longer than reads (--device-tflops); layer_ms has the all-reduces of several ranks.
    Machine for_rows(PlanInput in, const Shard& shard, const Machine& machine, int64_t rows, int64_t length) const;

  private:
    double level_ms(const PlanInput& in, const Machine& machine, const Shard& shard, size_t part, int64_t rows) const;

    const Options& options_;
    const LlamaConfig& config_;
    WeightFormat weights_, draft_weights_;
    std::string_view backend_;
    int threads_;
    LevelOptions level_;
    RetrievalShape retrieval_;
    EvictionShape heavy_;
    std::optional<LlamaConfig> draft_;
    SpecCosts costs_;  // from --spec-costs, outermost level first
};

}  // namespace trireme
