#pragma once
/// The chain that --spec asks for: who proposes tokens and who checks them.

#include <memory>
#include <string>
#include <vector>

#include "decode/plain.h"
#include "decode/speculate.h"
#include "launch/flags/options.h"
#include "launch/run/draft_model.h"

namespace trireme {

/// Warns of flags that were given and that none of these chains reads.
void warn_of_unused(const std::vector<Options>& chains);

class Chain {
  public:
    /// Over `model`, and `draft` where --spec wants one; both must outlive it. Errors: as Plain, Drafter and Speculate.
    Chain(const Options& options, Level& model, DraftModel* draft, Device& device);

    Decoder& decoder() { return *decoder_; }
    /// What checked tokens so far, the outermost first; empty: nothing was proposed to anybody.
    std::vector<const Speculate*> levels() const;

  private:
    std::unique_ptr<Proposer> proposer_;
    std::unique_ptr<Decoder> decoder_;
    const Speculate* speculate_ = nullptr;
};

}  // namespace trireme
