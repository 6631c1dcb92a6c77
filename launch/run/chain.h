#pragma once
/// A chain as --spec asks for it: who proposes tokens and who checks them.

#include <memory>
#include <string>
#include <vector>

#include "decode/plain.h"
#include "decode/speculate.h"
#include "launch/flags/options.h"
#include "launch/run/spec_levels.h"

namespace trireme {

class Chain {
  public:
    /// Over `model`, and of `proposing` the levels that the chain has; both must outlive it. Errors: as Plain, Drafter
    /// and Speculate.
    Chain(const Options& options, const ChainSpec& spec, Level& model, const SpecLevels* proposing, Device& device);

    Decoder& decoder() { return *decoder_; }
    /// What checked tokens so far, the outermost first; empty: nothing was proposed to anybody.
    std::vector<const Speculate*> levels() const;

  private:
    Proposer& base(const Options& o, const ChainSpec& spec, const SpecLevels* proposing, Device& device);

    std::unique_ptr<Proposer> base_;
    std::vector<std::unique_ptr<HeldLaws>> held_;
    std::vector<std::unique_ptr<Speculate>> speculates_;  // the innermost first
    std::unique_ptr<Decoder> plain_;
    Decoder* decoder_ = nullptr;
};

}  // namespace trireme
