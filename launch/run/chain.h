#pragma once
/// Chain: the speculation chain of one sequence, built from --spec. It owns the proposers and verifiers, and is what
/// generates tokens, also without speculation. Chains: those of a run's batch slots.

#include <memory>
#include <string>
#include <vector>

#include "decode/generate.h"
#include "decode/plain.h"
#include "decode/speculate.h"
#include "decode/suffix.h"
#include "decode/tree_drafter.h"
#include "launch/flags/options.h"
#include "launch/run/rank_group.h"
#include "launch/run/spec_levels.h"

namespace trireme {

/// Warns of speculation flags that differ from their defaults and that none of these chains reads. There is at least
/// one chain.
void warn_of_unused(const std::vector<Options>& chains);

/// The names of the chain's models in SpecCosts, the full model first; the n-gram lookup is none.
std::vector<std::string> level_names(const Options& options);
/// level_names() if some draft length is adaptive, since their costs determine it; else empty.
std::vector<std::string> weighed_levels(const Options& options);
/// The costs of --spec-costs if draft lengths require costs; else empty. Errors: as read_spec_costs.
SpecCosts given_costs(const Options& options);

/// A verifying level of a run, for reports: what the chains of all slots have done there.
struct ChainLevel {
    std::string name;
    SpeculationStats stats;
    std::vector<RoundStats> rounds;
};

class Chain {
  public:
    /// Builds the chain of options.spec over sequence `slot` of `model` and its levels of `proposing`; both, and
    /// `device`, must outlive it. `proposing` may be null if no part has a level or a corpus. `costs` are those of
    /// weighed_levels(); if they are empty and wants_costs(), call warm_up(). Errors: as Plain, Drafter and Speculate.
    Chain(const Options& options, Level& model, const SpecLevels* proposing, Device& device, SpecCosts costs,
          int slot = 0);

    /// The outermost verifier, or the model alone: generate() draws tokens from it.
    Decoder& decoder() { return *decoder_; }
    /// The decoder of a chain without speculation; null: it speculates.
    Plain* plain() { return plain_.get(); }
    /// The verifiers, the outermost first, for reports; empty: the chain decodes without speculation.
    std::vector<const Speculate*> levels() const;
    /// With --record: for each of levels(), its rounds since the last call. Without: no rounds.
    std::vector<std::vector<KeptRound>> take_kept_rounds();
    /// A digest of the decisions of all levels() since the sequence began (Speculate::digest), for agreed_status().
    uint64_t digest() const;

    /// Serialises the chain's state (Proposer::state).
    void state(Archive& ar) { decoder_->state(ar); }

    /// True if draft lengths are adaptive and there are no costs yet.
    bool wants_costs() const { return !gammas_.empty() && costs_.empty(); }
    /// Measures the costs once, after the prefill, with forwards of `token` (any id). All ranks call it together; rank
    /// 0's times count.
    void warm_up(const RankGroup& rank_group, int32_t token);
    /// Takes over costs that another chain of these levels has measured.
    void adopt_costs(const SpecCosts& costs);
    /// Given or measured costs; empty: no draft length is adaptive, or they are not measured yet.
    const SpecCosts& costs() const { return costs_; }

  private:
    std::unique_ptr<Proposer> base_of(const Options& o, const SpecLevels* proposing, Device& device);
    void know_costs();
    double selection_ms() const;

    SamplingParams sampling_;
    std::vector<std::string> weighed_;
    std::vector<Level*> levels_;           // the full model, then the parts from last to first; null: n-grams
    std::vector<GammaController> gammas_;  // of the verifiers, in the order of levels_; empty: none is adaptive
    SpecCosts costs_;
    std::unique_ptr<Proposer> base_;
    const SpecLevels* selecting_ = nullptr;                  // has the set that each verify selects again; null: none
    Suffix* suffix_ = nullptr;                               // base_ if it chooses draft lengths, else null
    const TreeDrafter* tree_ = nullptr;                      // base_ if it is a TreeDrafter, else null
    std::vector<std::unique_ptr<DraftDistributions>> held_;  // of the inner verifiers, innermost first
    std::vector<std::unique_ptr<Speculate>> speculates_;     // innermost first
    std::unique_ptr<Plain> plain_;
    Decoder* decoder_ = nullptr;
};

/// A digest of the decisions of several chains, in order (Chain::digest); null: a slot without a chain.
uint64_t digest_of(const std::vector<std::unique_ptr<Chain>>& chains);
/// Adds what a chain's levels have done to `all`, which is empty or has the same levels.
void add_levels(std::vector<ChainLevel>& all, const Chain& chain);

/// The chains of parallel samples: one for each sequence of the model.
class Chains {
  public:
    /// Arguments and errors as for Chain; `slots`: how many.
    Chains(const Options& options, Level& model, const SpecLevels* proposing, Device& device, const SpecCosts& costs,
           int64_t slots);

    Chain& first() { return *all_.front(); }
    /// The decoders.
    Slots slots();
    std::vector<ChainLevel> levels() const;
    /// Chain::take_kept_rounds of all chains, by level.
    std::vector<std::vector<KeptRound>> take_kept_rounds();
    uint64_t digest() const { return digest_of(all_); }
    bool wants_costs() const { return all_.front()->wants_costs(); }
    /// Chain::warm_up of the first chain; the others take over its costs.
    void warm_up(const RankGroup& rank_group, int32_t token);
    const SpecCosts& costs() const { return all_.front()->costs(); }

  private:
    std::vector<std::unique_ptr<Chain>> all_;
};

}  // namespace trireme
