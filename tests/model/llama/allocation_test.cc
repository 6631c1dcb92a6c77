// A decode forward allocates nothing and does not wait for the stream.

#include <atomic>
#include <vector>

#include <gtest/gtest.h>

#include "dist/self_comm.h"
#include "model/evicting_kv.h"
#include "runtime/cpu/stream.h"
#include "tests/support/allocations.h"
#include "tests/support/engine.h"
#include "tests/support/golden.h"

namespace trireme::test {
namespace {

// The second model's rotary table changes with every token.
class DecodeForwardOf : public testing::TestWithParam<const char*> {};

TEST_P(DecodeForwardOf, AllocatesNothing) {
    SelfComm comm;
    EngineOptions options;
    options.context = 400;
    Engine engine(data_path(GetParam()), options, comm, 2);
    const std::vector<int32_t> prompt(300, 7);
    engine->prefill(0, prompt);
    const std::vector<int32_t> first = {0};
    std::vector<Row> rows = {{.token = 3, .position = 300}};
    const auto step = [&] {
        rows[0].position = static_cast<int32_t>(engine->length());
        engine->forward(rows);
        engine->keep(0, first);
    };
    step();  // threads, lanes and library handles are made on first use
    engine->logits().host();

    const int64_t before = allocations;
    for (int i = 0; i < 20; ++i) {
        step();
        engine->logits().host();
    }

    EXPECT_EQ(allocations - before, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, DecodeForwardOf, testing::Values("models/kjv-target", "tiny/dynamic-beyond"),
                         [](const auto& param) { return param.index == 0 ? "plain" : "dynamic"; });

class BoundedForwardOf : public testing::TestWithParam<const char*> {};

// Every eviction policy: a step evicts a token, and some steps re-score.
TEST_P(BoundedForwardOf, AllocatesNothing) {
    SelfComm comm;
    Engine engine(data_path(GetParam()), {.context = 300}, comm, 2);
    for (const KvPolicy policy : evicting_policies()) {
        const EvictionShape shape = {
            .policy = policy, .budget = 64, .heavy = 32, .rolling = true, .observe = 16, .pool = 3, .every = 7};
        Level level(engine.device(), comm, engine.weights(),
                    {.context = 300,
                     .cache = evicting_cache(engine.weights().config(), engine.weights().shard(), shape, comm)});
        level.prefill(0, std::vector<int32_t>(100, 7));
        const std::vector<int32_t> first = {0};
        std::vector<Row> rows = {{.token = 3, .position = 0}};
        const auto step = [&] {
            rows[0].position = static_cast<int32_t>(level.length());
            level.forward(rows);
            level.keep(0, first);
            level.logits().host();
        };
        for (int i = 0; i < 16; ++i) step();
        const int64_t before = allocations;
        for (int i = 0; i < 20; ++i) step();
        EXPECT_EQ(allocations - before, 0) << name_of(policy);
    }
}

// In the second model several layers read one owner, and most of them are below it.
INSTANTIATE_TEST_SUITE_P(Models, BoundedForwardOf, testing::Values("models/kjv-target", "models/kjv-lckv"),
                         [](const auto& param) { return param.index == 0 ? "plain" : "shared"; });

TEST(DecodeForward, DoesNotWaitForTheStream) {
    SelfComm comm;
    Engine engine(data_path("models/kjv-target"), {}, comm, 1);
    const std::vector<int32_t> prompt(5, 7);
    engine->prefill(0, prompt);
    std::atomic<bool> go{false};
    auto* flag = &go;
    cpu(engine->stream()).enqueue("block", 0, [flag] { flag->wait(false); });

    const std::vector<Row> rows = {{.token = 3, .position = 5}};
    const std::vector<int32_t> first = {0};
    engine->forward(rows);
    engine->keep(0, first);

    EXPECT_FALSE(engine->stream().reached(engine->stream().record()));  // the host has returned, the work is not done
    go = true;
    go.notify_all();
    EXPECT_EQ(engine->logits().host().rows(), 1);
}

}  // namespace
}  // namespace trireme::test
