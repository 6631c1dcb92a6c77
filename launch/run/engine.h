#pragma once
/// A model that is ready to run: device, ranks, files and, once it is known for how much context, weights in memory.
/// Requests come and go; an engine serves one after the other.

#include <cstdint>
#include <memory>

#include "launch/commands/commands.h"
#include "launch/run/checkpoint.h"
#include "launch/run/crew.h"
#include "launch/run/residency.h"
#include "launch/run/run_device.h"
#include "model/level.h"

namespace trireme {

class Engine {
  public:
    /// Opens device and files, which ranks must agree on. No weights are read yet. Ranks pass or leave together.
    Engine(const Start& start, const Crew& crew);

    /// Tokens that a sequence may have: what --ctx-size says, or the model.
    int64_t longest_context() const { return longest_context_; }
    const Checkpoint& checkpoint() const { return checkpoint_; }

    /// Reads the weights, and makes room for sequences of `context` tokens. Ranks pass or leave together. Errors: as
    /// choose_residency, Weights and Level.
    void load(const Start& start, const Crew& crew, int64_t context);

    Device& device() const { return *device_.device; }
    const Weights& weights() const { return *weights_; }
    Level& model() const { return *model_; }
    const ResidencyChoice& residency() const { return residency_; }
    int threads() const { return threads_; }     // of this rank
    double load_ms() const { return load_ms_; }  // files to memory

  private:
    int threads_;
    OpenedDevice device_;
    Checkpoint checkpoint_;
    int64_t longest_context_ = 0;
    std::unique_ptr<Comm> device_comm_;  // what the model's ranks talk through; null: the crew's own
    ResidencyChoice residency_;
    std::unique_ptr<Weights> weights_;
    std::unique_ptr<Level> model_;
    double load_ms_ = 0;
};

}  // namespace trireme
