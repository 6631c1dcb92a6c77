// A model in a store gives the same bits as its folder, on any number of ranks, whatever ranks the store was written
// for.

#include <cctype>
#include <filesystem>
#include <span>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "model/checkpoint/model_store.h"
#include "tests/support/engine.h"
#include "tests/support/golden.h"
#include "tests/support/near.h"

namespace trireme::test {
namespace {

class StoredWeights : public testing::TestWithParam<std::string> {};

TEST_P(StoredWeights, GiveTheBitsOfTheFolder) {
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / fmt::format("trireme-store-{}.h5", ::getpid());
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
        for (const int made_for : {1, 2, 3}) {
            write_model_store(Conversion(std::filesystem::path(TRIREME_TEST_DATA) / GetParam(), {}), path,
                              IfThere::kReplace, made_for, [] {});
            for (const int ranks : {1, 2, 3}) {
                const EngineOptions options = {.weights = type, .k_type = DType::kF32, .v_type = DType::kF32};
                const Greedy folder = greedy(GetParam(), ranks, 1, "cpu", options),
                             store = greedy(path.string(), ranks, 1, "cpu", options);
                EXPECT_EQ(store.tokens, folder.tokens);
                EXPECT_TRUE(same_bits(std::span<const float>(store.logits), std::span<const float>(folder.logits)))
                    << name_of(type) << ", made for " << made_for << ", read by " << ranks;
            }
        }
    }
    std::filesystem::remove(path);
}

INSTANTIATE_TEST_SUITE_P(Models, StoredWeights,
                         testing::Values("models/kjv-target", "tiny/heads9-kv3", "tiny/gqa4-bf16", "tiny/qwen2-tied",
                                         "tiny/qwen2-window", "tiny/qwen3-norms", "tiny/llama-bias",
                                         "tiny/mistral-window", "tiny/phi3-long", "gguf/phi3.gguf"),
                         [](const auto& param) { return case_name(param.param); });

}  // namespace
}  // namespace trireme::test
