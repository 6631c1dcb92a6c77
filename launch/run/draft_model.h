#pragma once
/// Who drafts in a speculative run: a level over a window of the text, of a small model that is whole on every rank, or
/// of the target's own weights.

#include <memory>
#include <optional>

#include "dist/self_comm.h"
#include "launch/flags/chain_spec.h"
#include "launch/flags/options.h"
#include "launch/run/checkpoint.h"
#include "model/level.h"

namespace trireme {

class DraftModel {
  public:
    /// `what`: Part::kDraft opens what --model-draft names; no weights are read yet. Part::kWindow: the target's own
    /// weights. Errors: Exit::kUsage where nothing is named; as open_model; Exit::kConfig where its vocabulary is not
    /// the target's: by token where both bring a tokenizer, else by size.
    DraftModel(const Options& options, const Checkpoint& target, Part what);

    /// What it will ask for on each of `ranks` ranks, on a device of `backend` with `threads` threads, the laws of
    /// `held` tokens included.
    MemoryBytes memory(int ranks, std::string_view backend, int threads, int64_t held) const;
    /// Reads the weights, or takes the target's, for texts that grow by at most `context` tokens. `device`, `target`
    /// and `comm` must outlive the object. Errors: as Weights and Level.
    void load(Device& device, const Weights& target, Comm& comm, int64_t context);
    /// Frees what load() has taken.
    void unload();

    Level& level() { return *level_; }
    const WeightSource* files() const { return source_.get(); }  // null: the target's own weights

  private:
    LevelOptions options_;
    std::unique_ptr<WeightSource> source_;  // null: the target's own weights
    const LlamaConfig& config_;
    WeightType type_;
    int64_t window_;
    SelfComm alone_;  // what a model that is whole on every rank computes with
    std::unique_ptr<Weights> weights_;
    std::unique_ptr<Level> level_;
};

/// What such a level takes of a rank that holds `shard`. `weights`: the type that it holds its own in; nothing: the
/// target's are there.
MemoryBytes drafting_memory(const LlamaConfig& config, const Shard& shard, std::optional<DType> weights,
                            const LevelOptions& options, std::string_view backend, int threads, int64_t window,
                            int64_t held);

}  // namespace trireme
