// Checks what a RetrievalSet holds, token by token: keys encode their chunk, and values their token.

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/key_order.h"
#include "offload/retrieved/retrieval_set.h"
#include "runtime/cpu/device.h"
#include "runtime/error.h"

namespace trireme::test {
namespace {

constexpr int64_t kOwners = 2, kHeads = 2, kDim = 8, kWidth = kHeads * kDim, kChunk = 8, kPrompt = 1000;
const KvLayout kLayout = {.kv_heads = kHeads, .head_dim = kDim, .k_type = DType::kF32, .v_type = DType::kF32};
const KvShape kShape = {.layout = kLayout, .owner_layers = kOwners, .sequences = 1, .context = 2048};

/// A head's score of a chunk: each owner and head has another order, and no two scores are equal.
float liking(int64_t chunk, int64_t owner, int64_t head) {
    return static_cast<float>((chunk * (31 + 10 * owner + 4 * head) + 7) % 997) / 997;
}

/// A CPU device with graphs, so that every forward enqueues the same work.
class RecordingCpu final : public CpuDevice {
  public:
    RecordingCpu() : CpuDevice(1) {}
    bool graphs() const override { return true; }
};

/// A full cache that the test writes and attends row by row. The query is (1, 0, ..) for each head, times `sign`.
class Text {
  public:
    Text(const std::vector<bool>& on_chip, const RetrievalShape& shape, bool graphs = false, bool read = true)
        : device(graphs ? std::make_unique<RecordingCpu>() : std::make_unique<CpuDevice>(1)),
          cache(*device, *stream, kShape, {.on_chip = on_chip, .span_bytes = 1}),
          set(*device, *stream, cache, shape) {
        if (read) set.choose_again(true);
    }
    /// A forward that threw may have left kernels that still read the rows kept below.
    ~Text() { stream->synchronize(); }

    void prefill(int64_t n) {
        cache.truncate(0, 0);
        cache.begin_prefill(0, n);
        for (OwnerIndex owner; owner.i < kOwners; ++owner) {
            cache.begin_layer(owner, KvCache::Pass::kWrites);
            for (int64_t done = 0; done < n; done += 300)
                rows(*prefill_op, owner, done, std::min(int64_t{300}, n - done), n);
        }
        cache.end();
        stream->synchronize();
    }
    /// Runs a forward of one row, and keeps the row. Blocks until done.
    void step() {
        enqueue_step();
        stream->synchronize();
    }
    /// Like step(), but only enqueues.
    void enqueue_step() {
        const int64_t at = cache.length(0);
        const int32_t row = cache.stage(0, -1);
        const RowGroup group = {.sequence = 0, .first = 0, .rows = 1, .bound = at + 1};
        cache.begin(std::span(&group, 1));
        for (OwnerIndex owner; owner.i < kOwners; ++owner) rows(*decode_op, owner, at, 1, at + 1);
        cache.end();
        cache.keep(*decode_op, 0, std::span(&row, 1));
    }
    /// The tokens in the set's slots, from first to last; -1 where key and value do not belong to one token of this
    /// owner and head.
    std::vector<int64_t> tokens(OwnerIndex owner, int64_t head) {
        std::vector<int64_t> seen;
        const auto* tiles = static_cast<const int64_t*>(set.tiles(owner).data());
        for (int64_t slot = 0; slot < set.slots(); ++slot) {
            const auto* tile = reinterpret_cast<const float*>(tiles[slot / kTileTokens]);
            const int64_t at = (head * kTileTokens + slot % kTileTokens) * kDim;
            const float* value = tile + kHeads * kTileTokens * kDim + at;
            const auto token = static_cast<int64_t>(value[0]);
            const int64_t key = head * kTileTokens * kDim + key_place("cpu", DType::kF32, kDim, slot % kTileTokens, 0);
            const bool right = tile[key] == liking(token / kChunk, owner.i, head) &&
                               value[1] == static_cast<float>(owner.i * 10 + head);
            seen.push_back(right ? token : -1);
        }
        return seen;
    }
    /// The tokens that the set should hold: selected at length n, then kept up to length `tokens`.
    std::vector<int64_t> wanted(OwnerIndex owner, int64_t head, int64_t n, int64_t tokens) const {
        const ChunkPick p = set.shape().pick(n);
        std::vector<int64_t> order;
        for (int64_t c = 1; c < p.candidates; ++c) order.push_back(c);
        std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
            return sign * liking(a, owner.i, head) > sign * liking(b, owner.i, head);
        });
        std::set<int64_t> chunks = {0};
        for (int32_t i = 0; i + 1 < p.picked; ++i) chunks.insert(order[static_cast<size_t>(i)]);
        std::vector<int64_t> want;
        for (int64_t t = 0; t < tokens; ++t) {
            if (t / kChunk >= p.candidates || chunks.contains(t / kChunk)) want.push_back(t);
        }
        return want;
    }
    void expect(int64_t chosen_behind, int64_t tokens_now, const std::string& what) {
        EXPECT_EQ(set.tokens(), tokens_now);
        for (OwnerIndex owner; owner.i < kOwners; ++owner) {
            for (int64_t h = 0; h < kHeads; ++h) {
                ASSERT_EQ(tokens(owner, h), wanted(owner, h, chosen_behind, tokens_now))
                    << what << ", owner " << owner.i;
            }
        }
    }

    float sign = 1;
    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> stream = device->make_stream("compute");
    FullCache cache;
    RetrievalSet set;

  private:
    void rows(Kernels& op, OwnerIndex owner, int64_t first, int64_t n, int64_t tokens) {
        std::vector<float>&k = keep_floats(n * kWidth), &v = keep_floats(n * kWidth), &q = keep_floats(n * kWidth);
        std::vector<float>& out = keep_floats(n * kWidth);
        for (int64_t r = 0; r < n; ++r) {
            for (int64_t h = 0; h < kHeads; ++h) {
                const auto at = static_cast<size_t>(r * kWidth + h * kDim);
                k[at] = liking((first + r) / kChunk, owner.i, h);
                v[at] = static_cast<float>(first + r);
                v[at + 1] = static_cast<float>(owner.i * 10 + h);
                // Only the prompt's last query, or the first of a forward, may select.
                q[at] = first + r + 1 == tokens ? sign : -sign;
            }
        }
        std::vector<int32_t>&slots = keep_ints(n), &zeros = keep_ints(n), &cached = keep_ints(n);
        std::vector<int32_t>&ancestors = keep_ints(n * kMaxRows), &heads = keep_ints(kHeads);
        for (int64_t r = 0; r < n; ++r) slots[static_cast<size_t>(r)] = static_cast<int32_t>(first + r);
        std::fill(cached.begin(), cached.end(), static_cast<int32_t>(first));
        for (int64_t h = 0; h < kHeads; ++h) heads[static_cast<size_t>(h)] = static_cast<int32_t>(h);
        const auto tensor = [](std::vector<float>& x) {
            return Tensor(x.data(), DType::kF32, {static_cast<int64_t>(x.size()) / kWidth, kWidth});
        };
        const auto ids = [](std::vector<int32_t>& x, const Shape& s) { return Tensor(x.data(), DType::kI32, s); };
        const RowsView cache_of = {.slots = ids(slots, {n}),
                                   .sequences = ids(zeros, {n}),
                                   .cached = ids(cached, {n}),
                                   .ancestors = ids(ancestors, {n, kMaxRows}),
                                   .max_slots = first + n};
        cache.write(op, owner, tensor(k), tensor(v), cache_of);
        cache.attend(op, owner, {tensor(out), tensor(q), ids(heads, {kHeads}), cache_of});
    }
    std::vector<float>& keep_floats(int64_t n) {
        return *floats_.emplace_back(std::make_unique<std::vector<float>>(n));
    }
    std::vector<int32_t>& keep_ints(int64_t n) {
        return *ints_.emplace_back(std::make_unique<std::vector<int32_t>>(n));
    }

    static constexpr KernelLimits kLimits = {
        .max_rows = kPrefillRows, .max_k = kWidth, .max_n = kWidth, .heads = kHeads, .head_dim = kDim};
    std::unique_ptr<Kernels> prefill_op = make_kernels(*device, *stream, Phase::kPrefill, kLimits);
    std::unique_ptr<Kernels> decode_op = make_kernels(*device, *stream, Phase::kDecode, kLimits);
    std::vector<std::unique_ptr<std::vector<float>>> floats_;
    std::vector<std::unique_ptr<std::vector<int32_t>>> ints_;
};

const std::vector<std::vector<bool>> kResidencies = {{true, true}, {false, true}, {false, false}};

TEST(RetrievalSet, HoldsWhatThePromptsLastQueryPicks) {
    for (const std::vector<bool>& on_chip : kResidencies) {
        for (const int64_t n : {int64_t{1}, int64_t{256}, int64_t{264}, int64_t{271}, int64_t{400}, kPrompt}) {
            Text text(on_chip, {.budget = 64, .chunk = kChunk});
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
            Text text(on_chip, {.budget = 64, .chunk = kChunk, .every = every}, /*graphs=*/every == 3);
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
        Text text(on_chip, {.budget = 64, .chunk = kChunk, .comes_back = true});
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
    Text text({true, false}, {.budget = 64, .chunk = kChunk, .every = 3, .comes_back = true});
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
    Text text({true, false}, {.budget = 64, .chunk = kChunk});
    text.prefill(kPrompt);
    const int64_t candidates = text.set.shape().pick(kPrompt).candidates * kChunk;
    text.cache.truncate(0, candidates);
    text.expect(kPrompt, candidates, "picked chunks alone");
    EXPECT_THROW(text.cache.truncate(0, candidates - 1), Error);
}

// The host may be many forwards ahead: what it sends remains valid until it has been read.
TEST(RetrievalSet, IsChosenAsItWasSaidThen) {
    Text text({true, true}, {.budget = 64, .chunk = kChunk, .every = 12});
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
        Text text({true, false}, {.budget = 64, .chunk = kChunk, .every = RetrievalShape::kNever});
        text.prefill(prompt);
        for (int64_t i = 0; i < std::min(int64_t{70}, kShape.context - prompt); ++i) text.step();
        text.expect(prompt, text.cache.length(0), "at the end");
        text.cache.truncate(0, prompt);
        text.expect(prompt, prompt, "the prompt again");
    }
    // The budget holds the whole sequence.
    Text whole({true, true}, {.budget = kShape.context, .chunk = kChunk, .every = RetrievalShape::kNever});
    whole.prefill(kShape.context - 40);
    for (int64_t i = 0; i < 40; ++i) whole.step();
    whole.cache.truncate(0, kShape.context - 40);
    whole.expect(kShape.context - 40, kShape.context - 40, "all of it");
}

// While no proposer reads the set, it is not re-selected, unless it is full.
TEST(RetrievalSet, RestsWithoutAReader) {
    Text text({true, false}, {.budget = 64, .chunk = kChunk});
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
    Text text({true, false}, {.budget = 64, .chunk = kChunk}, /*graphs=*/false, /*read=*/false);
    text.prefill(kPrompt);
    for (int i = 0; i < 10; ++i) text.step();
    text.expect(kPrompt, kPrompt + 10, "not read so far");
}

// The longer of two queries decides.
TEST(RetrievalSet, IsChosenByTheMeanOfTwoQueries) {
    Text text({true, false}, {.budget = 64, .chunk = kChunk, .queries = 2, .query_columns = kWidth});
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
    Text text({true, true}, {.budget = 64, .chunk = kChunk, .queries = 2, .query_columns = kWidth}, /*graphs=*/true);
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
        Text text(on_chip, shape, /*graphs=*/on_chip[0] != on_chip[1]);
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
