#pragma once
/// A model ready to run in a test.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/comm.h"
#include "model/llama.h"

namespace trireme::test {

/// Opens, loads and owns everything a Llama stands on, but the ranks. Ranks of a device that is not the CPU, or stands
/// for one that is not, talk through host memory.
class Engine {
  public:
    Engine(const std::filesystem::path& path, const LlamaOptions& options, Comm& comm, int threads = 1,
           const std::string& device = "cpu");
    Engine(std::unique_ptr<WeightSource> source, const LlamaOptions& options, Comm& comm, int threads = 1,
           const std::string& device = "cpu");

    Llama& operator*() { return *model_; }
    Llama* operator->() { return model_.get(); }

    /// Logits of every token of `ids`, by the prefill path; the tokens are committed behind what is there.
    std::vector<float> prefill_logits(std::span<const int32_t> ids);
    /// Logits of one token behind the committed ones, which is then committed.
    std::vector<float> step(int32_t id);

  private:
    std::unique_ptr<Device> device_;
    std::unique_ptr<Comm> staged_;
    std::unique_ptr<WeightSource> source_;
    std::unique_ptr<Llama> model_;
};

/// f32 everywhere: parity with float32 references.
inline constexpr LlamaOptions kExact{.weights = DType::kF32, .k_type = DType::kF32, .v_type = DType::kF32};

/// What a model of tests/data says to a prompt of 33 tokens.
struct Greedy {
    std::vector<int32_t> tokens;  // the 24 most likely
    std::vector<float> logits;    // of the prompt
};
Greedy greedy(const std::string& model, int ranks, int threads, const std::string& device = "cpu",
              const LlamaOptions& options = kExact);

}  // namespace trireme::test
