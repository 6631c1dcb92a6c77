#pragma once
/// Engine of a run: this rank's device, the model's files and, after load(), its weights, levels and KV memory. An
/// engine may serve several requests, one after the other. Commands that run the model have one on each rank.

#include <cstdint>
#include <memory>

#include "dist/agreement.h"
#include "launch/run/checkpoint.h"
#include "launch/run/kv_wire.h"
#include "launch/run/rank_group.h"
#include "launch/run/residency.h"
#include "launch/run/run_device.h"
#include "launch/run/spec_levels.h"
#include "launch/run/start.h"
#include "model/level.h"

namespace trireme {

/// The number of sequences that a level has KV memory for; samples of one prompt share the prompt's tiles.
struct SideBySide {
    int64_t texts = 1;           // sequences
    bool of_one_prompt = false;  // they are samples of one prompt
};

class Engine {
  public:
    /// Opens device and files, and compares them between ranks. Reads no weights yet. All ranks pass, or all throw:
    /// errors as open_run_device, open_checkpoint and require_agreement.
    Engine(const Start& start, const RankGroup& rank_group);

    /// The most tokens of a sequence: --ctx-size, else the model's context, which does not limit rolling positions.
    int64_t longest_context() const { return longest_context_; }
    const Checkpoint& checkpoint() const { return checkpoint_; }
    /// The settings that ranks compare (settings.h), also compared with those of snapshots and batch outputs. Empty
    /// with one rank, unless the command is batch or uses snapshots.
    const KeyValues& settings() const { return settings_; }

    /// Reads the weights unless they are loaded, and allocates KV memory for sequences of `context` tokens, of which
    /// `prompt_tokens` belong to the prompt. The last argument gives the number of sequences. Frees the levels and KV
    /// memory of an earlier load(). `start` may select a subset of the constructor's chains, and another KV placement.
    /// All ranks pass, or all throw: errors as choose_residency, Weights and Level.
    void load(const Start& start, const RankGroup& rank_group, int64_t context, int64_t prompt_tokens,
              const SideBySide& beside = {});
    /// The most sequences, up to `at_most`, that load() would have memory for with these arguments; 0: none. The same
    /// on every rank. Unloads the levels that propose. Makes control calls.
    int64_t most_side_by_side(const Start& start, const RankGroup& rank_group, int64_t context, int64_t prompt_tokens,
                              bool of_one_prompt, int64_t at_most) const;

    Device& device() const { return *device_.device; }
    // Available after load(). The next load() replaces all but the weights.
    const Weights& weights() const { return *weights_; }
    Level& model() const { return *model_; }
    /// Null: the command builds no chain (SpecLevels may have no levels).
    SpecLevels* proposing() const { return proposing_.get(); }
    const ResidencyChoice& residency() const { return residency_; }
    /// The eviction policy of the model's own cache; kFull: nothing is evicted.
    const EvictionShape& eviction() const { return eviction_; }
    /// The policy that the eviction flags configure: that of the chain if it has h2o, else eviction().
    const EvictionShape& bounding() const {
        return proposing_ && proposing_->heavy().evicts() ? proposing_->heavy() : eviction_;
    }
    int threads() const { return threads_; }     // on this rank
    double load_ms() const { return load_ms_; }  // time of the constructor and of all load() calls

  private:
    LevelOptions level_options(const Options& o, int64_t context, int64_t prompt_tokens,
                               const SideBySide& beside) const;

    int threads_;
    OpenedDevice device_;
    Checkpoint checkpoint_;
    KeyValues settings_;
    int64_t longest_context_ = 0;
    std::unique_ptr<Comm> device_comm_;  // for the model's collectives; null: the crew's Comm
    KvWireChoice wire_;
    ResidencyChoice residency_;
    EvictionShape eviction_;
    std::unique_ptr<Weights> weights_;
    std::unique_ptr<Level> model_;
    std::unique_ptr<SpecLevels> proposing_;
    double load_ms_ = 0;
};

}  // namespace trireme
