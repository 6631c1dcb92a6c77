// Weights: copies in flight are completed when a read fails.

#include "model/weights.h"

#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "model/checkpoint/shard.h"
#include "runtime/cpu/device.h"
#include "runtime/cpu/stream.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

/// A checkpoint whose first tensor can be read and whose second cannot.
class FailingSource final : public WeightSource {
  public:
    FailingSource() {
        config_.dim = 8;
        config_.n_heads = config_.n_kv_heads = 1;
        config_.head_dim = 8;
        config_.ffn_dim = 8;
        config_.vocab = 16;
        config_.n_layers = 1;
        config_.layer_map = LayerMap::identity(1);
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

/// A device whose streams begin with a sleep, and which checks that copies are done when their source is released.
class NappingDevice final : public CpuDevice {
  public:
    NappingDevice() : CpuDevice(1) {}
    bool host_reaches_memory() const override { return false; }  // as on a GPU: through pinned buffers
    std::unique_ptr<Stream> make_stream(const char* name) override {
        auto stream = std::make_unique<CpuStream>(name, 1);
        stream->enqueue("nap", 0, [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
        stream_ = stream.get();
        return stream;
    }
    void release(Space space, void* data, size_t bytes) noexcept override {
        if (space == Space::kHost) {
            ++given_back_;
            done_ = done_ && stream_->reached(stream_->record());
        }
        CpuDevice::release(space, data, bytes);
    }
    int given_back() const { return given_back_; }
    bool copies_were_done() const { return done_; }

  private:
    Stream* stream_ = nullptr;
    int given_back_ = 0;
    bool done_ = true;
};

TEST(Weights, AFailedReadWaitsForTheCopyBeforeIt) {
    NappingDevice device;
    const FailingSource source;
    // The copy of the first tensor cannot have begun when the second one fails.
    EXPECT_THROW(Weights(device, source, make_shard(source.config(), 0, 1), DType::kF32), Error);
    EXPECT_GE(device.given_back(), 2);
    EXPECT_TRUE(device.copies_were_done()) << "the staging buffer is gone and its copy is not done";
}

}  // namespace
}  // namespace trireme::test
