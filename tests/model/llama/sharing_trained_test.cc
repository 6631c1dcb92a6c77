// The trained model whose layers 0 to 4 read layer 4's keys and values: its cross entropy on its own text.

#include "model/tokenizer/tokenizer.h"
#include "tests/model/llama/sharing_story.h"
#include "tests/support/golden.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

/// Mean negative log probability of all tokens but the first.
double cross_entropy(const Logits& logits, std::span<const int32_t> ids) {
    double total = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
        const auto top = static_cast<double>(*std::ranges::max_element(logits[i]));
        double sum = 0;
        for (const float x : logits[i]) sum += std::exp(static_cast<double>(x) - top);
        total -= static_cast<double>(logits[i][static_cast<size_t>(ids[i + 1])]) - top - std::log(sum);
    }
    return total / static_cast<double>(ids.size() - 1);
}

class TrainedSharing : public testing::Test {
  protected:
    TrainedSharing() {
        const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(data_path("models/kjv-lckv"));
        ids = tokenizer->encode(read_text(data_path("texts/kjv_12k.txt")), true);
        ids.resize(kSanitized ? 200 : 400);  // exact: one pass per token
    }
    double of(Level& level, bool by_decoding) {
        return cross_entropy(by_decoding ? decode(level, ids) : read(level, ids), ids);
    }
    std::vector<int32_t> ids;
    SelfComm comm;
    std::unique_ptr<Device> device = open_device("cpu", {.threads = 1});
    std::unique_ptr<WeightSource> source = open_model(data_path("models/kjv-lckv"));
    Weights weights{*device, *source, make_shard(source->config(), 0, 1), DType::kF32};
};

// Mean log probabilities in float32: each is off by about 1e-5 at most, and not all in one direction.
TEST_F(TrainedSharing, ExactPassesSayWhatDecodingSays) {
    Level decoding(*device, comm, weights, sharing_options({})),
        exact(*device, comm, weights, sharing_options({.how = Passes::How::kExact}));
    EXPECT_NEAR(of(exact, false), of(decoding, true), 1e-5);
}

// The model was trained with 9 passes: they give nearly what decoding gives; one pass does not.
TEST_F(TrainedSharing, ReadsWithItsOwnPassesAsItWasTrained) {
    EXPECT_EQ(source->config().passes, 9);
    Level nine(*device, comm, weights, sharing_options({})), once(*device, comm, weights, sharing_options(exactly(1))),
        decoding(*device, comm, weights, sharing_options({}));
    const double wanted = of(decoding, true);
    EXPECT_NEAR(of(nine, false), wanted, 0.02);
    EXPECT_EQ(nine.passes(), 9);
    EXPECT_GT(of(once, false), wanted + 0.3);
}

}  // namespace
}  // namespace trireme::test
