#pragma once
/// RetrievalText: a text with a RetrievalSet, whose keys encode their chunk and whose values encode their token.

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/key_order.h"
#include "offload/retrieved/retrieval_set.h"
#include "runtime/cpu/device.h"

namespace trireme::test {

inline constexpr int64_t kOwners = 2, kHeads = 2, kDim = 8, kWidth = kHeads * kDim, kChunk = 8, kPrompt = 1000;
inline const KvLayout kLayout = {.kv_heads = kHeads, .head_dim = kDim, .k_type = DType::kF32, .v_type = DType::kF32};
inline const KvShape kShape = {.layout = kLayout, .owner_layers = kOwners, .sequences = 1, .context = 2048};

/// A head's score of a chunk: each owner and head has another order, and no two scores are equal.
inline float liking(int64_t chunk, int64_t owner, int64_t head) {
    return static_cast<float>((chunk * (31 + 10 * owner + 4 * head) + 7) % 997) / 997;
}

/// A CPU device with graphs, so that every forward enqueues the same work.
class RecordingCpu final : public CpuDevice {
  public:
    RecordingCpu() : CpuDevice(1) {}
    bool graphs() const override { return true; }
};

/// A full cache that the test writes and attends row by row. The query is (1, 0, ..) for each head, times `sign`.
class RetrievalText {
  public:
    RetrievalText(const std::vector<bool>& on_chip, const RetrievalShape& shape, bool graphs = false, bool read = true,
                  const KvShape& kv = kShape)
        : device(graphs ? std::make_unique<RecordingCpu>() : std::make_unique<CpuDevice>(1)),
          cache(*device, *stream, kv, {.on_chip = on_chip, .span_bytes = 1}),
          set(*device, *stream, cache, shape) {
        if (read) set.choose_again(true);
    }
    /// A forward that threw may have left kernels that still read the rows kept below.
    ~RetrievalText() { stream->synchronize(); }

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
        const int64_t at = cache.length(sequence);
        const int32_t row = cache.stage(sequence, -1);
        const RowGroup group = {.sequence = sequence, .first = 0, .rows = 1, .bound = at + 1};
        cache.begin(std::span(&group, 1));
        for (OwnerIndex owner; owner.i < kOwners; ++owner) rows(*decode_op, owner, at, 1, at + 1);
        cache.end();
        cache.keep(*decode_op, sequence, std::span(&row, 1));
    }
    /// The tokens in the set's slots, from first to last; -1 where key and value do not belong to one token of this
    /// owner and head.
    std::vector<int64_t> tokens(OwnerIndex owner, int64_t head) {
        std::vector<int64_t> all;
        const auto* tiles = static_cast<const int64_t*>(seen->tiles(owner).data());
        for (int64_t slot = 0; slot < seen->slots(); ++slot) {
            const auto* tile = reinterpret_cast<const float*>(tiles[slot / kTileTokens]);
            const int64_t at = (head * kTileTokens + slot % kTileTokens) * kDim;
            const float* value = tile + kHeads * kTileTokens * kDim + at;
            const auto token = static_cast<int64_t>(value[0]);
            const int64_t key = head * kTileTokens * kDim + key_place("cpu", DType::kF32, kDim, slot % kTileTokens, 0);
            const bool right = tile[key] == liking(token / kChunk, owner.i, head) &&
                               value[1] == static_cast<float>(owner.i * 10 + head);
            all.push_back(right ? token : -1);
        }
        return all;
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
        EXPECT_EQ(seen->tokens(), tokens_now);
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
    int64_t sequence = 0;       // that step() continues
    RetrievalSet* seen = &set;  // the set that expect() reads

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
        std::vector<int32_t>&slots = keep_ints(n), &sequences = keep_ints(n), &cached = keep_ints(n);
        std::vector<int32_t>&ancestors = keep_ints(n * kMaxRows), &heads = keep_ints(kHeads);
        for (int64_t r = 0; r < n; ++r) slots[static_cast<size_t>(r)] = static_cast<int32_t>(first + r);
        std::fill(sequences.begin(), sequences.end(), static_cast<int32_t>(sequence));
        std::fill(cached.begin(), cached.end(), static_cast<int32_t>(first));
        for (int64_t h = 0; h < kHeads; ++h) heads[static_cast<size_t>(h)] = static_cast<int32_t>(h);
        const auto tensor = [](std::vector<float>& x) {
            return Tensor(x.data(), DType::kF32, {static_cast<int64_t>(x.size()) / kWidth, kWidth});
        };
        const auto ids = [](std::vector<int32_t>& x, const Shape& s) { return Tensor(x.data(), DType::kI32, s); };
        const RowsView cache_of = {.slots = ids(slots, {n}),
                                   .sequences = ids(sequences, {n}),
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

inline const std::vector<std::vector<bool>> kResidencies = {{true, true}, {false, true}, {false, false}};

}  // namespace trireme::test
