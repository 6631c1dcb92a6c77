// The memory of a model is as planned, and a failed allocation leaks nothing.

#include <gtest/gtest.h>

#include "dist/self_comm.h"
#include "model/footprint.h"
#include "runtime/cpu/device.h"
#include "tests/support/random_model.h"

namespace trireme::test {
namespace {

const RandomShape kShape{.name = "memory",
                         .layers = 6,
                         .dim = 64,
                         .heads = 4,
                         .kv_heads = 2,
                         .head_dim = 16,
                         .ffn = 96,
                         .vocab = 96,
                         .context = 8192};

/// A device on which one allocation fails.
class ShortDevice final : public CpuDevice {
  public:
    explicit ShortDevice(int64_t fails = -1) : CpuDevice(1), fails_(fails) {}
    void* allocate(Space space, size_t bytes) override {
        require(allocations_++ != fails_, Exit::kOs, "no memory, as planned");
        return CpuDevice::allocate(space, bytes);
    }
    int64_t allocations() const { return allocations_; }

  private:
    int64_t fails_, allocations_ = 0;
};

LevelOptions options(const Plan& plan) {
    LevelOptions o{.context = 5000};
    o.residency.on_chip = plan.on_chip;
    o.residency.verify = true;
    return o;
}

Shard one_rank(const RandomShape& shape) {
    return make_shard(RandomModel(shape).config(), 0, 1);
}

PlanInput input(const RandomModel& source, int64_t on_chip) {
    const LlamaConfig& c = source.config();
    return plan_input(c, make_shard(c, 0, 1), DType::kF16, {.context = 5000}, "cpu", 1, on_chip);
}

TEST(Memory, AModelTakesWhatItsPlanSays) {
    const RandomModel source(kShape);
    SelfComm comm;
    for (const int64_t on_chip : {0, 2, 4, 6}) {
        const PlanInput in = input(source, on_chip);
        const Plan plan = plan_with(in, on_chip, /*hidden_on_host=*/on_chip == 4);
        ShortDevice device;
        LevelOptions o = options(plan);
        o.residency.verify = false;
        o.residency.hidden_on_host = plan.hidden_on_host;
        const Weights weights(device, source, one_rank(kShape), DType::kF16);
        const Level model(device, comm, weights, o);

        // An allocation is rounded up to a page.
        const size_t slack = static_cast<size_t>(device.allocations()) * 4096;
        EXPECT_GE(device.used(Space::kDevice), plan.total().device) << on_chip;
        EXPECT_LE(device.used(Space::kDevice), plan.total().device + slack) << on_chip;
        EXPECT_LE(device.used(Space::kHost), plan.total().host + slack) << on_chip;
        EXPECT_EQ(model.cache().facts().memory.device, plan.kv.device + plan.ring_bytes + plan.tail_bytes);
        EXPECT_EQ(weights.bytes_per_step(), in.weight_bytes_per_step);
    }
}

TEST(Memory, AnyAllocationMayFailAndNothingLeaks) {
    const RandomModel source(kShape);
    SelfComm comm;
    const LevelOptions o = options(plan_with(input(source, 3), 3));
    int64_t fails = 0;
    for (;; ++fails) {
        ShortDevice device(fails);
        bool built = false;
        try {
            const Weights weights(device, source, one_rank(kShape), DType::kF16);
            const Level model(device, comm, weights, o);
            built = true;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), Exit::kOs) << e.what();
        }
        EXPECT_EQ(device.used(Space::kDevice), 0u) << fails;
        EXPECT_EQ(device.used(Space::kHost), 0u) << fails;
        if (built) break;
    }
    EXPECT_GT(fails, 15);
}

}  // namespace
}  // namespace trireme::test
