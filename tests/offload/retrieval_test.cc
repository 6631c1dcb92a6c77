// Checks what a RetrievalSet holds, token by token.

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/error.h"
#include "tests/offload/retrieval_text.h"

namespace trireme::test {
namespace {

TEST(RetrievalSet, HoldsWhatThePromptsLastQueryPicks) {
    for (const std::vector<bool>& on_chip : kResidencies) {
        for (const int64_t n : {int64_t{1}, int64_t{256}, int64_t{264}, int64_t{271}, int64_t{400}, kPrompt}) {
            RetrievalText text(on_chip, {.budget = 64, .chunk = kChunk});
            text.prefill(n);
            text.expect(n, n, fmt::format("{} tokens", n));
            text.prefill(n / 2 + 1);  // another prompt in its place
            text.expect(n / 2 + 1, n / 2 + 1, fmt::format("{} tokens", n / 2 + 1));
        }
    }
}

TEST(RetrievalSet, ReselectsAsOftenAsItSays) {
    for (const std::vector<bool>& on_chip : kResidencies) {
        for (const int64_t every : {int64_t{1}, int64_t{3}, RetrievalShape::kNever}) {
            RetrievalText text(on_chip, {.budget = 64, .chunk = kChunk, .every = every}, /*graphs=*/every == 3);
            text.prefill(kPrompt);
            text.sign = -1;  // selects other chunks
            int64_t chosen = kPrompt;
            bool anew = false;
            for (int64_t i = 1; i <= 40; ++i) {
                text.step();
                if (every != RetrievalShape::kNever && i % every == 0) {
                    chosen = kPrompt + i - 1;
                    anew = true;
                }
                text.sign = anew ? -1 : 1;
                text.expect(chosen, kPrompt + i, fmt::format("every {}, step {}", every, i));
                text.sign = -1;
            }
        }
    }
}

// Truncation to the prompt restores the prompt's selection; any other truncation shortens the set.
TEST(RetrievalSet, ComesBackToThePrompt) {
    for (const std::vector<bool>& on_chip : kResidencies) {
        RetrievalText text(on_chip, {.budget = 64, .chunk = kChunk, .comes_back = true});
        text.prefill(kPrompt);
        for (int sample = 0; sample < 2; ++sample) {
            text.sign = -1;
            for (int i = 0; i < 30; ++i) text.step();
            text.expect(kPrompt + 29, kPrompt + 30, "after 30 tokens");
            text.cache.truncate(0, kPrompt + 25);
            text.expect(kPrompt + 29, kPrompt + 25, "five cut off");
            text.cache.truncate(0, kPrompt);
            text.stream->synchronize();
            text.sign = 1;
            text.expect(kPrompt, kPrompt, "the prompt again");
        }
    }
}

// After truncation to the prompt, the count of steps to the next selection starts again.
TEST(RetrievalSet, ReselectsAsOftenAfterTruncation) {
    RetrievalText text({true, false}, {.budget = 64, .chunk = kChunk, .every = 3, .comes_back = true});
    text.prefill(kPrompt);
    for (int sample = 0; sample < 2; ++sample) {
        for (int64_t i = 1; i <= 5; ++i) {
            text.sign = -1;
            text.step();
            text.sign = i < 3 ? 1 : -1;
            text.expect(i < 3 ? kPrompt : kPrompt + 2, kPrompt + i, fmt::format("sample {}, step {}", sample, i));
        }
        text.cache.truncate(0, kPrompt);
        text.stream->synchronize();
    }
}

// The set can be truncated to the end of its candidates and no further: it holds only a part of the tokens before it.
TEST(RetrievalSet, IsCutOffDownToItsCandidates) {
    RetrievalText text({true, false}, {.budget = 64, .chunk = kChunk});
    text.prefill(kPrompt);
    const int64_t candidates = text.set.shape().pick(kPrompt).candidates * kChunk;
    text.cache.truncate(0, candidates);
    text.expect(kPrompt, candidates, "picked chunks alone");
    EXPECT_THROW(text.cache.truncate(0, candidates - 1), Error);
}

// The host may be many forwards ahead: what it sends remains valid until it has been read.
TEST(RetrievalSet, IsChosenAsItWasSaidThen) {
    RetrievalText text({true, true}, {.budget = 64, .chunk = kChunk, .every = 12});
    text.prefill(kPrompt);
    text.sign = -1;
    for (int i = 0; i < 11; ++i) text.step();
    text.stream->call_host("late", 0, [] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
    for (int i = 0; i < 10; ++i) text.enqueue_step();  // the first one selects, the others do not
    text.stream->synchronize();
    text.expect(kPrompt + 11, kPrompt + 21, "chosen while the host continued");
}

TEST(RetrievalSet, TakesTheMemoryThatItsShapeSays) {
    const auto device = std::make_unique<CpuDevice>(1);
    const auto stream = device->make_stream("compute");
    FullCache cache(*device, *stream, kShape);
    for (const int64_t queries : {1, 2, 3}) {
        for (const bool comes_back : {false, true}) {
            const RetrievalShape shape = {
                .budget = 64, .chunk = kChunk, .queries = queries, .query_columns = 512, .comes_back = comes_back};
            const size_t on_device = device->used(Space::kDevice), of_host = device->used(Space::kHost);
            const RetrievalSet set(*device, *stream, cache, shape);
            const MemoryBytes said = shape.memory(kShape);
            // Each of at most three buffers of either kind is whole pages.
            constexpr size_t kPages = size_t{3} * 4096;
            const size_t device_bytes = device->used(Space::kDevice) - on_device;
            const size_t host_bytes = device->used(Space::kHost) - of_host;
            EXPECT_GE(device_bytes, said.device);
            EXPECT_LT(device_bytes, said.device + kPages);
            EXPECT_GE(host_bytes, said.host);
            EXPECT_LT(host_bytes, said.host + kPages);
        }
    }
}

TEST(RetrievalSet, RequiresChunksThatDivideTiles) {
    const auto device = std::make_unique<CpuDevice>(1);
    const auto stream = device->make_stream("compute");
    FullCache cache(*device, *stream, kShape);
    const auto make = [&](FullCache& full, int64_t budget, int64_t chunk) {
        const RetrievalSet set(*device, *stream, full, {.budget = budget, .chunk = chunk});
    };
    for (const int64_t chunk : {int64_t{1}, int64_t{2}, kTileTokens}) EXPECT_NO_THROW(make(cache, chunk, chunk));
    for (const int64_t chunk : {int64_t{0}, int64_t{3}, 2 * kTileTokens}) EXPECT_THROW(make(cache, 1024, chunk), Error);
    EXPECT_THROW(make(cache, 7, 8), Error);
}

// The prompt's own selection is retained to the end of the context, and needs no copy to return to.
TEST(RetrievalSet, ChosenOnceStaysToTheEndOfTheContext) {
    for (const int64_t prompt : {kPrompt, kShape.context - 40}) {
        RetrievalText text({true, false}, {.budget = 64, .chunk = kChunk, .every = RetrievalShape::kNever});
        text.prefill(prompt);
        for (int64_t i = 0; i < std::min(int64_t{70}, kShape.context - prompt); ++i) text.step();
        text.expect(prompt, text.cache.length(0), "at the end");
        text.cache.truncate(0, prompt);
        text.expect(prompt, prompt, "the prompt again");
    }
    // The budget holds the whole sequence.
    RetrievalText whole({true, true}, {.budget = kShape.context, .chunk = kChunk, .every = RetrievalShape::kNever});
    whole.prefill(kShape.context - 40);
    for (int64_t i = 0; i < 40; ++i) whole.step();
    whole.cache.truncate(0, kShape.context - 40);
    whole.expect(kShape.context - 40, kShape.context - 40, "all of it");
}

// While no proposer reads the set, it is not re-selected, unless it is full.
TEST(RetrievalSet, RestsWithoutAReader) {
    RetrievalText text({true, false}, {.budget = 64, .chunk = kChunk});
    text.prefill(kPrompt);
    text.set.choose_again(false);
    for (int i = 0; i < 10; ++i) text.step();
    text.expect(kPrompt, kPrompt + 10, "resting");
    for (int i = 0; i < 200; ++i) text.step();
    EXPECT_LE(text.set.slots(), text.set.most_slots());
    text.set.choose_again(true);
    text.step();
    text.expect(kPrompt + 210, kPrompt + 211, "read again");
}

// In a bench, chains that do not read the set decode before the first one that does.
TEST(RetrievalSet, RestsUntilItIsRead) {
    RetrievalText text({true, false}, {.budget = 64, .chunk = kChunk}, /*graphs=*/false, /*read=*/false);
    text.prefill(kPrompt);
    for (int i = 0; i < 10; ++i) text.step();
    text.expect(kPrompt, kPrompt + 10, "not read so far");
}

// The longer of two queries decides.
TEST(RetrievalSet, IsChosenByTheMeanOfTwoQueries) {
    RetrievalText text({true, false}, {.budget = 64, .chunk = kChunk, .queries = 2, .query_columns = kWidth});
    text.prefill(kPrompt);
    int64_t tokens = kPrompt;
    for (const auto& [query, decides] : {std::pair<float, float>{2, 1}, {-1, 1}, {-1, -1}, {2, 1}}) {
        text.sign = query;
        text.step();
        text.sign = decides;
        text.expect(tokens, tokens + 1, fmt::format("{} tokens", tokens + 1));
        ++tokens;
    }
}

// A recorded forward reads the queries of its rows where they were when it was recorded.
TEST(RetrievalSet, TakesQueriesOfRecordedForwardsFromTheFirstRowOn) {
    RetrievalText text({true, true}, {.budget = 64, .chunk = kChunk, .queries = 2, .query_columns = kWidth},
                       /*graphs=*/true);
    text.prefill(kPrompt);
    text.step();
    text.cache.stage(0, -1);  // a row that was neither kept nor dropped
    EXPECT_THROW(text.step(), Error);
}

// Two of three queries decide; a sample begins without the last queries of the sample before it.
TEST(RetrievalSet, IsChosenByTheMeanOfTheLastQueries) {
    for (const std::vector<bool>& on_chip : kResidencies) {
        const RetrievalShape shape = {
            .budget = 64, .chunk = kChunk, .queries = 3, .query_columns = kWidth, .comes_back = true};
        RetrievalText text(on_chip, shape, /*graphs=*/on_chip[0] != on_chip[1]);
        text.prefill(kPrompt);
        int64_t tokens = kPrompt;
        const auto step = [&](float query, float decides) {
            text.sign = query;
            text.step();
            text.sign = decides;
            text.expect(tokens, tokens + 1, fmt::format("{} tokens", tokens + 1));
            ++tokens;
        };
        for (int sample = 0; sample < 2; ++sample) {
            step(1, 1);
            step(1, 1);
            step(-1, 1);
            step(-1, -1);
            step(-1, -1);
            step(1, -1);
            step(-1, -1);
            step(-1, -1);
            text.cache.truncate(0, kPrompt);
            text.stream->synchronize();
            tokens = kPrompt;
        }
    }
}

}  // namespace
}  // namespace trireme::test
