#pragma once
/// The chain that --spec asks for: who proposes tokens and who checks them.

#include <memory>
#include <string>
#include <vector>

#include "decode/plain.h"
#include "decode/speculate.h"
#include "launch/flags/options.h"
#include "launch/run/crew.h"
#include "launch/run/draft_model.h"

namespace trireme {

/// Models of the chain whose costs its draft lengths go by, as SpecCosts has them; empty: no length adapts.
std::vector<std::string> weighed_levels(const Options& options);

class Chain {
  public:
    /// Over `model`, and `draft` where --spec wants one; both must outlive it. `costs`: of weighed_levels(), or empty:
    /// then warm_up() is to be called. Errors: as Plain, Drafter and Speculate.
    Chain(const Options& options, Level& model, DraftModel* draft, Device& device, SpecCosts costs);

    Decoder& decoder() { return *decoder_; }
    /// What checked tokens so far, the outermost first; empty: nothing was proposed to anybody.
    std::vector<const Speculate*> levels() const;

    /// Draft lengths adapt, and nobody has said by which costs.
    bool wants_costs() const { return !weighed_.empty() && costs_.empty(); }
    /// Measures them with forwards of `token`, all ranks together, rank 0's times.
    void warm_up(const Crew& crew, int32_t token);
    const SpecCosts& costs() const { return costs_; }

  private:
    struct Weighed {
        std::string name;
        Level* level;
    };
    SamplingParams sampling_;
    std::vector<Weighed> weighed_;
    std::vector<DraftLength> lengths_;  // of the levels that check
    SpecCosts costs_;
    std::unique_ptr<Proposer> proposer_;
    std::unique_ptr<Decoder> decoder_;
    const Speculate* speculate_ = nullptr;
};

}  // namespace trireme
