// A level with a window: it sees sinks and recent tokens as if they were consecutive.

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "decode/decode_state.h"
#include "dist/self_comm.h"
#include "model/checkpoint/rope.h"
#include "offload/window/window_cache.h"
#include "tests/support/engine.h"
#include "tests/support/random_model.h"

namespace trireme::test {
namespace {

constexpr int64_t kSinks = 5, kRecent = 80, kWindow = kSinks + kRecent;

/// One layer: its keys and values are functions of the token and its position alone, whatever it has seen.
std::unique_ptr<RandomModel> one_layer() {
    return std::make_unique<RandomModel>(RandomShape{.name = "one",
                                                     .layers = 1,
                                                     .dim = 64,
                                                     .heads = 4,
                                                     .kv_heads = 2,
                                                     .head_dim = 16,
                                                     .ffn = 64,
                                                     .vocab = 96,
                                                     .context = 4096});
}

CacheMaker window_cache(const LlamaConfig& config) {
    auto rope = std::make_shared<Rope>(config.rope, config.head_dim);
    return [rope](Device& device, Stream& compute, const KvShape& shape, const std::vector<OwnerIndex>&) {
        return std::make_unique<WindowCache>(
            device, compute, shape, WindowShape{kSinks, kRecent},
            [rope](std::span<float> out, int64_t position) { rope->turn(out, position); });
    };
}

std::vector<int32_t> text_of(int64_t n) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((i * i * 7 + i * 3 + 11) % 96));
    return ids;
}

std::vector<float> last_logits(Level& level, int64_t row = 0) {
    const HostTensor all = level.logits().host();
    const float* x = static_cast<const float*>(all.data()) + row * all.stride();
    return {x, x + 96};
}

/// Checks that |a - b| is below the error of rotations by other angles and of f32 sums in another order.
void expect_close(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
    double most = 0, off = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        most = std::max(most, std::abs(static_cast<double>(b[i])));
        off = std::max(off, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    }
    EXPECT_LT(off, 2e-5 * most) << what;
    EXPECT_GT(most, 0.01);
}

class WindowTest : public testing::Test {
  protected:
    SelfComm comm;
    Engine engine{one_layer(), {.weights = DType::kF32, .context = 256}, comm};
    LevelOptions options{.k_type = DType::kF32,
                         .v_type = DType::kF32,
                         .context = 4096,
                         .cache = window_cache(engine.weights().config())};
    Level window{engine.device(), comm, engine.weights(), options};
    Level full{engine.device(), comm, engine.weights(), {.k_type = DType::kF32, .v_type = DType::kF32, .context = 512}};

    /// Logits of a full level that reads only the first `sinks` tokens, if there are more, and the last `recent` ones.
    std::vector<float> wanted(const std::vector<int32_t>& text, int64_t sinks, int64_t recent) {
        std::vector<int32_t> seen = text;
        const auto n = static_cast<int64_t>(text.size());
        if (n > sinks + recent) seen.erase(seen.begin() + sinks, seen.end() - recent);
        full.truncate(0, 0);
        full.prefill(0, seen);
        return last_logits(full);
    }
};

TEST_F(WindowTest, SeesSinksAndRecentTokensOfAPrompt) {
    for (const int64_t n : {1, 5, 84, 85, 86, 90, 170, 1000}) {
        const std::vector<int32_t> text = text_of(n);
        DecodeState level(window);
        level.prefill(text, {});
        level.begin();
        EXPECT_EQ(level.length(), std::min(n, kWindow));
        expect_close(last_logits(window), wanted(text, kSinks, kRecent), fmt::format("{}", n));
    }
}

TEST_F(WindowTest, MovesWithTheText) {
    for (const int64_t prompt : {3, 40, 84, 300}) {
        std::vector<int32_t> text = text_of(prompt);
        DecodeState level(window);
        level.prefill(text, {});
        level.begin();
        std::vector<Row> rows;
        for (int64_t i = 0; i < 250; ++i) {
            text.push_back(static_cast<int32_t>((i * 5 + prompt) % 96));
            level.append(text.back());
            level.rows_of_pending(rows);
            window.extend(rows);
            if (i % 25 == 24 || i < 3) {
                // The row sees the window, and itself.
                const int64_t sinks = prompt < kSinks ? 0 : kSinks;
                expect_close(last_logits(window), wanted(text, sinks, kWindow - sinks + 1),
                             fmt::format("{} + {}", prompt, i));
            }
            level.accept_rows();
            level.commit();
        }
        EXPECT_EQ(window.cache().cached(0), kWindow);
    }
}

TEST_F(WindowTest, BeginsAgainAfterThePrompt) {
    const std::vector<int32_t> text = text_of(200);
    DecodeState level(window);
    level.prefill(text, {});
    level.begin();
    const std::vector<float> first = last_logits(window);
    std::vector<Row> rows;
    for (int64_t i = 0; i < 10; ++i) {
        level.append(1);
        level.rows_of_pending(rows);
        window.extend(rows);
        level.accept_rows();
        if (i % 3 == 0) level.commit();
    }
    level.begin();
    EXPECT_EQ(last_logits(window), first);
}

}  // namespace
}  // namespace trireme::test
