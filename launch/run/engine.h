#pragma once
/// What a run needs to compute: device, ranks, the model's files and, after load(), weights and KV memory. An engine
/// may serve several requests, one after the other.

#include <cstdint>
#include <memory>

#include "dist/agreement.h"
#include "launch/commands/commands.h"
#include "launch/run/checkpoint.h"
#include "launch/run/crew.h"
#include "launch/run/residency.h"
#include "launch/run/run_device.h"
#include "launch/run/spec_levels.h"
#include "model/level.h"

namespace trireme {

/// Texts that a level has KV for at one time; those that are samples of one prompt share its tiles.
struct SideBySide {
    int64_t texts = 1;
    bool of_one_prompt = false;
};

class Engine {
  public:
    /// Opens device and files, and compares between ranks what they hold. Reads no weights yet. All ranks pass, or all
    /// throw: errors as open_run_device, open_checkpoint and require_agreement.
    Engine(const Start& start, const Crew& crew);

    /// Tokens that a sequence may have: --ctx-size, else the model's context, which does not bind positions that roll.
    int64_t longest_context() const { return longest_context_; }
    const Checkpoint& checkpoint() const { return checkpoint_; }
    /// What ranks have compared (settings.h), and what snapshots and outputs of batch are compared by; empty
    /// where there is one rank and nothing to compare.
    const KeyValues& settings() const { return settings_; }

    /// Reads the weights, unless they are there, and allocates KV memory for sequences of `context` tokens, of which
    /// the prompt has so many. Of the chains that the constructor was told of, `start` may name fewer, and another
    /// residency. All ranks pass, or all throw: errors as choose_residency, Weights and Level.
    void load(const Start& start, const Crew& crew, int64_t context, int64_t prompt_tokens,
              const SideBySide& beside = {});
    /// The most texts, up to `at_most`, for which load() would find memory; 0: not even one. Makes control calls.
    int64_t most_side_by_side(const Start& start, const Crew& crew, int64_t context, int64_t prompt_tokens,
                              bool of_one_prompt, int64_t at_most) const;

    Device& device() const { return *device_.device; }
    const Weights& weights() const { return *weights_; }
    Level& model() const { return *model_; }
    SpecLevels* proposing() const { return proposing_.get(); }  // null: none is asked for
    const ResidencyChoice& residency() const { return residency_; }
    const BoundedShape& bounded() const { return bounded_; }
    /// By which the flags of bounded KV are read: the policy's, or that of a chain.
    const BoundedShape& bounding() const {
        return proposing_ && proposing_->heavy().bounded() ? proposing_->heavy() : bounded_;
    }
    int threads() const { return threads_; }     // of this rank
    double load_ms() const { return load_ms_; }  // files to memory

  private:
    static LevelOptions level_options(const Options& o, int64_t context, int64_t prompt_tokens,
                                      const SideBySide& beside);

    int threads_;
    OpenedDevice device_;
    Checkpoint checkpoint_;
    KeyValues settings_;
    int64_t longest_context_ = 0;
    std::unique_ptr<Comm> device_comm_;  // for the model's collectives; null: the crew's Comm
    ResidencyChoice residency_;
    BoundedShape bounded_;
    std::unique_ptr<Weights> weights_;
    std::unique_ptr<Level> model_;
    std::unique_ptr<SpecLevels> proposing_;
    double load_ms_ = 0;
};

}  // namespace trireme
