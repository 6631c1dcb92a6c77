#pragma once
/// What a plan needs to know of speculation, and what it says of it: memory of the levels that propose, and a round.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decode/spec_costs.h"
#include "launch/flags/options.h"
#include "model/footprint.h"

namespace trireme {

class ChainPlan {
  public:
    /// That of options.spec, and of a --model-draft without it, for a model with this config and weights of type
    /// `weights`, on a device of `backend` with `threads` threads. Errors: Exit::kUsage for a draft that nobody names,
    /// or as many rates of --accept-rate as the chain has no levels; as open_config and read_spec_costs.
    ChainPlan(const Options& options, const LlamaConfig& config, DType weights, const LevelOptions& level,
              std::string_view backend, int threads);

    /// Where a chain retrieves, or a budget is given; else its budget is 0.
    RetrievalShape retrieval() const { return retrieval_; }
    /// What heads keep for a chain with h2o; kFull: the chain has none.
    const BoundedShape& heavy() const { return heavy_; }
    /// Of the levels that propose on a rank that holds `shard` of the model.
    MemoryBytes proposing(const LevelOptions& level, const Shard& shard, bool retrieves) const;

    /// GB/s at which the device reads what a step of one row reads, by --spec-costs; 0: it is not known.
    double measured_gbps(const PlanInput& in) const;
    /// A plain decode step that a round is compared with: what it is called, and its time.
    struct Plain {
        std::string name;  // "none@auto"
        int64_t on_chip = 0;
        double step_ms = 0;
    };
    /// A round of the rank that holds `shard`, where --accept-rate says how often tokens stay and the machine's rates
    /// are known; its speed-up over each of `plain`.
    std::vector<std::string> round_lines(const PlanInput& in, const Shard& shard, const Plan& plan,
                                         const Machine& machine, const std::vector<Plain>& plain) const;
    /// The machine as `rows` rows of a step see it, after `length` tokens: what they multiply may take longer than what
    /// they read (--device-tflops), and they are added up over the ranks.
    Machine for_rows(const PlanInput& in, const Shard& shard, const Machine& machine, int64_t rows,
                     int64_t length) const;

  private:
    double level_ms(const PlanInput& in, const Machine& machine, const Shard& shard, size_t part, int64_t rows) const;

    const Options& options_;
    const LlamaConfig& config_;
    DType weights_;
    std::string_view backend_;
    int threads_;
    LevelOptions level_;
    RetrievalShape retrieval_;
    BoundedShape heavy_;
    std::optional<LlamaConfig> draft_;
    SpecCosts costs_;  // of --spec-costs: the outermost level first
};

}  // namespace trireme
