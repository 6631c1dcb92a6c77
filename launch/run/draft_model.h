#pragma once
/// DraftModel: a proposing level that sees its first and recent tokens only. It runs a small model (--model-draft),
/// which is whole on every rank, or the target's own weights (--spec window).

#include <memory>
#include <optional>
#include <vector>

#include "dist/self_comm.h"
#include "launch/flags/chain_spec.h"
#include "launch/flags/options.h"
#include "launch/run/checkpoint.h"
#include "model/level.h"
#include "offload/window/window_cache.h"
#include "runtime/index.h"

namespace trireme {

/// Used by SpecLevels. The window is --draft-window tokens.
class DraftModel {
  public:
    /// Part::kDraft opens the files that --model-draft names; no weights are read yet. Part::kWindow uses the target's
    /// weights. Errors: Exit::kUsage if --model-draft is missing; as open_model; Exit::kConfig if its vocabulary is not
    /// the target's: compared token by token if both have a tokenizer, else by size.
    DraftModel(const Options& options, const Checkpoint& target, Part what);

    /// Reads the weights, or uses the target's, and makes `slots` levels, each for a sequence of at most `context`
    /// tokens. Only levels over the target's weights use `comm`. `device`, `target` and `comm` must outlive the object.
    /// Errors: as Weights and Level.
    void load(Device& device, const Weights& target, Comm& comm, int64_t context, int64_t slots);
    /// Frees what load() has allocated.
    void unload();

    /// A level that load() made.
    Level& level(int slot) { return *levels_[index(slot)]; }
    const WeightSource* files() const { return source_.get(); }  // null: the target's own weights
    const LlamaConfig& config() const { return config_; }
    const WeightType& weight_type() const { return type_; }

  private:
    LevelOptions options_;
    std::unique_ptr<WeightSource> source_;  // null: the target's own weights
    const LlamaConfig& config_;
    WeightType type_;
    int64_t window_;
    int64_t ctx_size_;  // -c; 0: not set
    SelfComm alone_;    // the communicator of a model that is whole on every rank
    std::unique_ptr<Weights> weights_;
    std::vector<std::unique_ptr<Level>> levels_;
};

/// The first and recent tokens that a level with a window of `tokens` tokens sees.
WindowShape draft_window_shape(int64_t tokens);

}  // namespace trireme
