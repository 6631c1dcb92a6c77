// Weights: what happens to copies under way when a read fails.

#include "model/weights.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "model/shard.h"
#include "runtime/cpu/stream.h"
#include "runtime/device.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

/// A checkpoint whose first tensor reads well and whose second does not.
class FailingSource final : public WeightSource {
  public:
    FailingSource() {
        config_.dim = 8;
        config_.n_heads = config_.n_kv_heads = 1;
        config_.head_dim = 8;
        config_.ffn_dim = 8;
        config_.vocab = 16;
        config_.n_layers = 1;
        config_.kv_source = {0};
        config_.tied_embeddings = true;
        add_tensor({"model.embed_tokens.weight", StoredType::kF32, Shape{16, 8}});
        add_tensor({"model.layers.0.input_layernorm.weight", StoredType::kF32, Shape{8}});
    }

  protected:
    void do_read(size_t tensor, int64_t, int64_t, const HostTensor& out) const override {
        require(tensor == 0, Exit::kData, "a bad tensor");
        const Matrix<float> to = out.as<float>();
        for (int64_t r = 0; r < to.rows; ++r) std::fill_n(to.row(r), to.cols, 1.0f);
    }
};

TEST(Weights, AFailedReadWaitsForTheCopyBeforeIt) {
    const auto device = open_device("cpu");
    CpuStream stream("compute", 1);
    const FailingSource source;
    const LlamaConfig& c = source.config();
    // The copy of the first tensor cannot have begun when the second one fails.
    stream.enqueue("nap", 0, [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
    EXPECT_THROW(Weights(*device, stream, source, make_shard(c.n_heads, c.n_kv_heads, c.ffn_dim, c.vocab, 0, 1),
                         DType::kF32, {}),
                 Error);
    EXPECT_TRUE(stream.reached(stream.record())) << "the staging buffer is gone and its copy is not done";
}

}  // namespace
}  // namespace trireme::test
