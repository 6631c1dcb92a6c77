// Levels share the weights and nothing else: interleaved, each gives the logits that it gives alone.

#include <fstream>
#include <memory>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "dist/self_comm.h"
#include "model/footprint.h"
#include "runtime/cpu/device.h"
#include "tests/model/llama/residency_story.h"

namespace trireme::test {
namespace {

/// A request on one level, one call at a time.
class Request {
  public:
    Request(Engine& engine, const LevelOptions& options, uint32_t seed)
        : level_(std::make_unique<Level>(engine.device(), engine.comm(), engine.weights(), options)), seed_(seed) {}

    void begin(int64_t prompt) {
        level_->prefill(0, some_ids(prompt, seed_));
        keep_logits(all_, level_->logits().host());
    }
    /// Enqueues a forward of a few rows, of which half are kept. The host does not wait.
    void forward(int turn) {
        std::vector<Row> rows;
        const int32_t n = 1 + (turn + static_cast<int32_t>(seed_)) % 5;
        for (int32_t r = 0; r < n; ++r) {
            rows.push_back({.token = (turn * 7 + r * 3 + static_cast<int32_t>(seed_)) % 96,
                            .position = static_cast<int32_t>(level_->length()) + r,
                            .parent = r - 1});
        }
        level_->forward(rows);
        std::vector<int32_t> kept;
        for (int32_t r = 0; r <= n / 2; ++r) kept.push_back(r);
        level_->keep(0, kept);
    }
    void look() { keep_logits(all_, level_->logits().host()); }
    const Logits& logits() const { return all_; }

  private:
    std::unique_ptr<Level> level_;
    uint32_t seed_;
    Logits all_;
};

constexpr int kTurns = 8;

Logits alone(Engine& engine, const LevelOptions& options, uint32_t seed, int64_t prompt) {
    Request request(engine, options, seed);
    request.begin(prompt);
    for (int turn = 0; turn < kTurns; ++turn) {
        request.forward(turn);
        request.look();
    }
    return request.logits();
}

void by_turns_as_alone(int ranks) {
    run_ranks(ranks, [](Comm& comm) {
        Engine engine(std::make_unique<RandomModel>(kShape), {.context = 256}, comm, 1, engine_device());
        // A GPU's link is not emulated.
        const Link link = engine.device().backend() == "cuda" ? Link{} : Link{.gbps = 2, .us = 5};
        const LevelOptions streamed{.context = 1200,
                                    .residency = residency({false, true, false, true, false}, 3, link)};
        const LevelOptions whole{.k_type = DType::kF32, .v_type = DType::kBF16, .context = 700};
        const Logits first_alone = alone(engine, streamed, 3, 530), second_alone = alone(engine, whole, 5, 250);

        Request first(engine, streamed, 3), second(engine, whole, 5);
        first.begin(530);
        second.begin(250);
        for (int turn = 0; turn < kTurns; ++turn) {
            first.forward(turn);
            second.forward(turn);  // while the first one's forward is in flight
            first.look();
            second.look();
        }
        expect_same(first.logits(), first_alone, "the streamed level");
        expect_same(second.logits(), second_alone, "the level on chip");
    });
}

TEST(Levels, InterleavedGiveWhatEachGivesAlone) {
    by_turns_as_alone(1);
}

TEST(Levels, InterleavedGiveWhatEachGivesAloneOnTwoRanks) {
    if (!ranks_as_threads()) GTEST_SKIP() << "ranks are processes on a GPU";
    by_turns_as_alone(2);
}

TEST(Levels, ASecondOneHasNoWeightsOfItsOwn) {
    const RandomModel source({.name = "heavy",
                              .layers = 8,
                              .dim = 512,
                              .heads = 8,
                              .kv_heads = 2,
                              .head_dim = 64,
                              .ffn = 2048,
                              .vocab = 512,
                              .context = 1024});
    const LlamaConfig& c = source.config();
    const Shard shard = make_shard(c, 0, 1);
    const LevelOptions options{.context = 512};
    CpuDevice device(1);
    SelfComm comm;
    const Weights weights(device, source, shard, DType::kF16);
    const Level first(device, comm, weights, options);
    const size_t before = device.used(Space::kDevice);

    const Level second(device, comm, weights, options);

    const size_t level = device.used(Space::kDevice) - before;
    const PlanInput in = plan_input(c, shard, DType::kF16, options, "cpu", 1, PlanInput::kAll);
    const Plan plan = plan_with(in, in.kv.owner_layers);
    const size_t slack = size_t{64} * 4096;  // an allocation is rounded up to a page
    EXPECT_LE(level, plan.total().device - plan.weight_bytes + slack);
    EXPECT_LT(2 * level, weights.bytes());
}

}  // namespace
}  // namespace trireme::test
