#pragma once
/// A model ready to run in a test.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "model/checkpoint/weight_source.h"
#include "model/level.h"

namespace trireme::test {

/// Returns the comm to use instead of `comm` if the host cannot reach the device's memory, or null: `comm` can be used.
std::unique_ptr<Comm> comm_of(Comm& comm, Device& device);

/// A test's options for a model: the type of its weights, and LevelOptions.
struct EngineOptions {
    DType weights = DType::kF16;
    bool blocks = false;                                // quantised matrices remain in blocks
    ActivationType activations = ActivationType::kF32;  // of products of blocks
    DType k_type = DType::kF16, v_type = DType::kF16;
    int64_t context = 0;
    int64_t sequences = 1;
    bool graphs = true;
    Residency residency = {};
    Passes passes = {};

    LevelOptions level() const {
        return {.k_type = k_type,
                .v_type = v_type,
                .context = context,
                .sequences = sequences,
                .graphs = graphs,
                .residency = residency,
                .passes = passes};
    }
};

/// Opens, loads and owns a Level and all that it needs, except the ranks. On a device that is not the CPU, or that
/// emulates another one, ranks communicate through host memory.
class Engine {
  public:
    Engine(const std::filesystem::path& path, const EngineOptions& options, Comm& comm, int threads = 1,
           const std::string& device = "cpu");
    Engine(std::unique_ptr<WeightSource> source, const EngineOptions& options, Comm& comm, int threads = 1,
           const std::string& device = "cpu");

    Level& operator*() { return *model_; }
    Level* operator->() { return model_.get(); }

    Device& device() { return *device_; }
    Comm& comm() { return comm_; }
    const Weights& weights() const { return *weights_; }

    /// Logits of every token of `ids`, by the prefill path; the tokens are committed after the earlier ones.
    std::vector<float> prefill_logits(std::span<const int32_t> ids);
    /// Logits of one token after the committed ones; it is then committed.
    std::vector<float> step(int32_t id);

  private:
    std::unique_ptr<Device> device_;
    std::unique_ptr<Comm> own_comm_;
    Comm& comm_;
    std::unique_ptr<WeightSource> source_;
    std::unique_ptr<Weights> weights_;
    std::unique_ptr<Level> model_;
};

/// f32 everywhere: parity with float32 references.
inline constexpr EngineOptions kExact{.weights = DType::kF32, .k_type = DType::kF32, .v_type = DType::kF32};

/// Results of a model of tests/data for a prompt of 33 tokens.
struct Greedy {
    std::vector<int32_t> tokens;  // the 24 greedy ones
    std::vector<float> logits;    // of all tokens of the prompt
};
Greedy greedy(const std::string& model, int ranks, int threads, const std::string& device = "cpu",
              const EngineOptions& options = kExact);

}  // namespace trireme::test
