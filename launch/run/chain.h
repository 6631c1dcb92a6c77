#pragma once
/// A chain as --spec asks for it: who proposes tokens and who checks them.

#include <memory>
#include <string>
#include <vector>

#include "decode/plain.h"
#include "decode/speculate.h"
#include "decode/tree_drafter.h"
#include "launch/flags/options.h"
#include "launch/run/crew.h"
#include "launch/run/spec_levels.h"

namespace trireme {

/// Warns of flags that were given and that none of these chains reads.
void warn_of_unused(const std::vector<Options>& chains);

/// Names of the chain's models as SpecCosts has them.
std::vector<std::string> level_names(const Options& options);
/// Those whose costs its draft lengths go by; empty: no length adapts.
std::vector<std::string> weighed_levels(const Options& options);
/// Of the report that --spec-costs names, where draft lengths ask for them. Errors: as read_spec_costs.
SpecCosts given_costs(const Options& options);

class Chain {
  public:
    /// That of options.spec over `model`, and of `proposing` the levels that it has; both must outlive it. `costs`: of
    /// weighed_levels(), or empty: then warm_up() is to be called. Errors: as Plain, Drafter and Speculate.
    Chain(const Options& options, Level& model, const SpecLevels* proposing, Device& device, SpecCosts costs);

    Decoder& decoder() { return *decoder_; }
    /// What checked tokens so far, the outermost first; empty: nothing was proposed to anybody.
    std::vector<const Speculate*> levels() const;
    /// Of each of levels(), its rounds since the last call: with --record; else none.
    std::vector<std::vector<KeptRound>> take_kept_rounds();
    /// Of what these have done since the text began (Speculate::digest).
    uint64_t digest() const;

    /// What the chain knows of the text (Proposer::state).
    void state(Archive& ar) { decoder_->state(ar); }

    /// Draft lengths adapt, and nobody has said by which costs.
    bool wants_costs() const { return !lengths_.empty() && costs_.empty(); }
    /// Measures them with forwards of `token`, all ranks together, rank 0's times.
    void warm_up(const Crew& crew, int32_t token);
    const SpecCosts& costs() const { return costs_; }

  private:
    std::unique_ptr<Proposer> base_of(const Options& o, Device& device);
    void know_costs();

    SamplingParams sampling_;
    std::vector<std::string> weighed_;
    std::vector<Level*> levels_;        // the model, then those of the parts from the last one on; null: n-grams
    std::vector<DraftLength> lengths_;  // of the levels that check, in this order; empty: none adapts
    SpecCosts costs_;
    std::unique_ptr<Proposer> base_;
    const TreeDrafter* tree_ = nullptr;  // base_, if it is one
    std::vector<std::unique_ptr<HeldLaws>> held_;
    std::vector<std::unique_ptr<Speculate>> speculates_;  // the innermost first
    std::unique_ptr<Decoder> plain_;
    Decoder* decoder_ = nullptr;
};

}  // namespace trireme
