// Parallel samples: each has the tokens, the text and the stop reason that it has alone.

#include <set>

#include <gtest/gtest.h>

#include "decode/generate.h"
#include "decode/plain.h"
#include "tests/decode/kjv_prompt.h"
#include "tests/support/hashed_model.h"
#include "tests/support/ranks.h"
#include "tests/support/sanitized.h"

namespace trireme::test {
namespace {

constexpr uint64_t kSeed = 11;

LevelOptions options(int64_t sequences, int64_t prompt, const Residency& residency = {}, int64_t context = 1024) {
    LevelOptions o = kExact.level();
    o.context = context;
    o.sequences = sequences;
    o.residency = residency;
    if (sequences > 1) o.common = std::min(prompt, context - 1) / kTileTokens * kTileTokens;
    return o;
}

/// Residency of `owners` owner layers: every second one on chip, or none.
Residency streamed(int64_t owners, bool half, int64_t frames = 0) {
    Residency r = {.on_chip = {}, .ring = 3, .frames = frames, .span_bytes = 1, .verify = true};
    for (int64_t owner = 0; owner < owners; ++owner) r.on_chip.push_back(half && owner % 2 == 1);
    return r;
}

/// A plain decoder for each of the first `n` sequences of a model.
class Decoders {
  public:
    Decoders(Level& level, const SamplingParams& sampling, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
            all_.push_back(std::make_unique<Plain>(level, sampling, kSeed, static_cast<int>(i)));
        }
    }
    Slots slots() const {
        std::vector<Decoder*> all;
        for (const auto& plain : all_) all.push_back(plain.get());
        return Slots(std::move(all));
    }

  private:
    std::vector<std::unique_ptr<Plain>> all_;
};

struct Shown {
    int64_t sample;
    int32_t id;
    std::string text;
    bool operator==(const Shown&) const = default;
};

class SideBySide : public KjvPrompt {
  protected:
    /// A prompt of `n` tokens.
    std::vector<int32_t> prompt_of(int64_t n) const {
        std::string text;
        while (static_cast<int64_t>(text.size()) < n * 5) {
            text += "And God said, Let the waters bring forth abundantly the moving creature that hath life. ";
        }
        std::vector<int32_t> ids = tokenizer->encode(text, true);
        ids.resize(static_cast<size_t>(n));
        return ids;
    }
    std::vector<Continuation> run(const GenerateRequest& asked, const SamplingParams& sampling, int64_t parallel,
                                  std::vector<Shown>* shown = nullptr, const Residency& residency = {}) {
        Level level(engine.device(), comm, engine.weights(),
                    options(parallel, static_cast<int64_t>(asked.prompt.size()), residency));
        const Decoders plain(level, sampling, parallel);
        const OnToken take = [&](int64_t sample, int32_t id, std::string_view text) {
            if (shown != nullptr) shown->push_back({sample, id, std::string(text)});
        };
        return trireme::generate(plain.slots(), tokenizer.get(), asked, stats, take);
    }
};

void expect_same(const std::vector<Continuation>& got, const std::vector<Continuation>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
        EXPECT_EQ(got[i].ids, want[i].ids) << i;
        EXPECT_EQ(got[i].text, want[i].text) << i;
        EXPECT_EQ(got[i].stop, want[i].stop) << i;
    }
}

TEST_F(SideBySide, GiveEachOnesOwnTokens) {
    for (const int64_t prompt : {1, 5, 255, 256, 257, 600}) {
        if (kSanitized && prompt != 5 && prompt != 257) continue;
        const GenerateRequest asked = {.prompt = prompt_of(prompt), .max_new = 40, .num_samples = 9};
        std::vector<Shown> shown_alone, shown;
        const std::vector<Continuation> alone = run(asked, {.temperature = 0.8}, 1, &shown_alone);
        const int64_t tokens = stats.new_tokens;
        for (const int64_t parallel : {2, 4, 9}) {
            shown.clear();
            expect_same(run(asked, {.temperature = 0.8}, parallel, &shown), alone);
            EXPECT_EQ(shown, shown_alone) << prompt << " " << parallel;
            EXPECT_EQ(stats.new_tokens, tokens);
        }
    }
}

// Streamed KV: the prompt's tiles are stored once in host memory, and cross the link once per forward. Each case has
// one prompt, because TSan runs at a tenth of the speed.
class SideBySideStreamed : public SideBySide, public testing::WithParamInterface<int64_t> {};

TEST_P(SideBySideStreamed, GiveEachOnesOwnTokens) {
    const int64_t prompt = GetParam(), owners = engine.weights().config().layer_map.owners();
    const GenerateRequest asked = {.prompt = prompt_of(prompt), .max_new = 300, .num_samples = 5};
    const std::vector<Continuation> alone = run(asked, {.temperature = 0.8}, 1);
    for (const bool half : {true, false}) {
        expect_same(run(asked, {.temperature = 0.8}, 3, nullptr, streamed(owners, half)), alone);
        const int64_t here = half ? owners - owners / 2 : owners, common = prompt / kTileTokens;
        EXPECT_GE(stats.decode_link.h2d_bytes, static_cast<uint64_t>(here * common * (stats.rounds - 5)) *
                                                   static_cast<uint64_t>(2 * kTileTokens * 4) *
                                                   engine.weights().config().n_kv_heads *
                                                   engine.weights().config().head_dim);
    }
}

INSTANTIATE_TEST_SUITE_P(Prompts, SideBySideStreamed,
                         testing::ValuesIn(kSanitized ? std::vector<int64_t>{5, 512}
                                                      : std::vector<int64_t>{5, 256, 511, 512, 513, 700}));

// Some samples end early, at EOS or at a stop string; the next sample takes over the batch slot.
TEST_F(SideBySide, EndAsTheyEndAlone) {
    const GenerateRequest asked = {
        .prompt = prompt_of(300), .max_new = 60, .num_samples = 24, .stops = {.eos = {2}, .stop = {"LORD", " and"}}};
    const std::vector<Continuation> alone = run(asked, {.temperature = 1}, 1);
    std::set<size_t> lengths;
    for (const Continuation& c : alone) lengths.insert(c.ids.size());
    ASSERT_GT(lengths.size(), 5u);
    for (const int64_t parallel : {3, 8}) expect_same(run(asked, {.temperature = 1}, parallel), alone);
}

// More samples than a forward has rows.
TEST_F(SideBySide, MayBeMoreThanAForwardsRows) {
    const GenerateRequest asked = {.prompt = prompt_of(270), .max_new = 6, .num_samples = 130};
    const std::vector<Continuation> alone = run(asked, {.temperature = 0.8}, 1);
    expect_same(run(asked, {.temperature = 0.8}, 130), alone);
    EXPECT_EQ(stats.rounds, 130 + 3 * 5);  // first tokens, then forwards
}

TEST_F(SideBySide, MayHaveNothingToSay) {
    for (const int64_t most : {0, 1}) {
        const GenerateRequest asked = {.prompt = prompt_of(20), .max_new = most, .num_samples = 5};
        expect_same(run(asked, {}, 3), run(asked, {}, 1));
    }
}

TEST_F(SideBySide, StopWhereTheyAreInterrupted) {
    const GenerateRequest asked = {.prompt = prompt_of(20), .max_new = 50, .num_samples = 6};
    Level level(engine.device(), comm, engine.weights(), options(4, 20));
    const Decoders plain(level, {.temperature = 0.8}, 4);
    int rounds = 0;
    const auto out = trireme::generate(plain.slots(), tokenizer.get(), asked, stats, {}, {},
                                       [&](std::span<const int32_t>) { return ++rounds == 8; });
    ASSERT_EQ(out.size(), 4u);
    for (const Continuation& c : out) {
        EXPECT_EQ(c.stop, StopReason::kInterrupted);
        EXPECT_EQ(c.ids.size(), 8u);
    }
}

// Layers that read later ones, and several ranks.
TEST(SideBySideOf, SharedLayersOnRanks) {
    for (const char* map : {"0_2_2_3", "0_0_2_2", "3_3_3_3"}) {
        const HashedShape shape = {.layer_map = map, .dim = 16, .heads = 4, .kv_heads = 2, .vocab = 32, .scale = 0.5};
        std::vector<int32_t> prompt;
        for (int32_t i = 0; i < 290; ++i) prompt.push_back((i * i + 3 * i) % 32);
        for (const int ranks : {1, 2}) {
            run_ranks(ranks, [&](Comm& comm) {
                Engine engine(std::make_unique<HashedModel>(shape), {.weights = DType::kF32, .context = 8}, comm);
                const GenerateRequest request = {.prompt = prompt, .max_new = 25, .num_samples = 7};
                const SamplingParams sampling = {.temperature = 1};
                GenerateStats stats;
                const auto run = [&](int64_t parallel, const Residency& residency = {}) {
                    Level level(engine.device(), comm, engine.weights(), options(parallel, 290, residency));
                    const Decoders plain(level, sampling, parallel);
                    return trireme::generate(plain.slots(), nullptr, request, stats);
                };
                const std::vector<Continuation> alone = run(1);
                expect_same(run(4), alone);
                const int64_t owners = engine.weights().config().layer_map.owners();
                for (const int64_t frames : {0, 1, 2}) expect_same(run(4, streamed(owners, false, frames)), alone);
            });
        }
    }
}

}  // namespace
}  // namespace trireme::test
