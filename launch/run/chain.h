#pragma once
/// Speculation chain of a run, built from --spec: proposers and verifiers.

#include <memory>
#include <string>
#include <vector>

#include "decode/plain.h"
#include "decode/speculate.h"
#include "decode/tree_drafter.h"
#include "launch/flags/options.h"
#include "launch/run/rank_group.h"
#include "launch/run/spec_levels.h"

namespace trireme {

/// Warns of given flags that none of these chains reads.
void warn_of_unused(const std::vector<Options>& chains);

/// The names of the chain's levels as SpecCosts has them, the full model first.
std::vector<std::string> level_names(const Options& options);
/// The levels whose costs determine draft lengths; empty: no draft length is adaptive.
std::vector<std::string> weighed_levels(const Options& options);
/// The costs of --spec-costs if draft lengths require costs; else empty. Errors: as read_spec_costs.
SpecCosts given_costs(const Options& options);

class Chain {
  public:
    /// Builds the chain of options.spec over `model` and its levels of `proposing`; both must outlive it. `costs` are
    /// those of weighed_levels(); if empty and wants_costs(), call warm_up(). Errors: as Plain, Drafter and Speculate.
    Chain(const Options& options, Level& model, const SpecLevels* proposing, Device& device, SpecCosts costs);

    Decoder& decoder() { return *decoder_; }
    /// The verifiers, the outermost first; empty: the chain decodes without speculation.
    std::vector<const Speculate*> levels() const;
    /// For each of levels(), its rounds since the last call with --record; without it, none.
    std::vector<std::vector<KeptRound>> take_kept_rounds();
    /// A digest of the decisions of all levels() since the sequence began (Speculate::digest).
    uint64_t digest() const;

    /// Serialises the chain's state (Proposer::state).
    void state(Archive& ar) { decoder_->state(ar); }

    /// True if draft lengths are adaptive and no cost table was given.
    bool wants_costs() const { return !gammas_.empty() && costs_.empty(); }
    /// Measures the costs with forwards of `token` on all ranks together; rank 0's times count.
    void warm_up(const RankGroup& rank_group, int32_t token);
    const SpecCosts& costs() const { return costs_; }

  private:
    std::unique_ptr<Proposer> base_of(const Options& o, Device& device);
    void know_costs();

    SamplingParams sampling_;
    std::vector<std::string> weighed_;
    std::vector<Level*> levels_;           // the full model, then the parts from last to first; null: n-grams
    std::vector<GammaController> gammas_;  // of the verifiers, in the order of levels_; empty: none is adaptive
    SpecCosts costs_;
    std::unique_ptr<Proposer> base_;
    const TreeDrafter* tree_ = nullptr;  // base_ if it is a TreeDrafter, else null
    std::vector<std::unique_ptr<DraftDistributions>> held_;
    std::vector<std::unique_ptr<Speculate>> speculates_;  // innermost first
    std::unique_ptr<Decoder> plain_;
    Decoder* decoder_ = nullptr;
};

}  // namespace trireme
