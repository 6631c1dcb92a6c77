#pragma once
/// A request as the copy path sees it: prompts, decode forwards, forgetting and growing again, on a device that notices
/// what is not ordered. Compute's accesses are told, not made: the bytes do not matter.

#include <numeric>
#include <vector>

#include "offload/kv_cache.h"
#include "offload/row_store.h"
#include "tests/offload/ordered_device.h"

namespace trireme::test {

/// The kernels that the cache itself calls.
class OrderedKernels final : public Kernels {
  public:
    explicit OrderedKernels(OrderedStream& stream) : Kernels(Phase::kDecode, {}), stream_(stream) {}

  private:
    void do_kv_keep(const LayerKv& kv, const Tensor& kept) override;

    static void never() { check(false, "copy story: an operation that a cache does not call"); }
    void do_embed(const Tensor&, const Tensor&, const Tensor&) override { never(); }
    void do_rmsnorm(const Tensor&, const Tensor&, const Tensor&, float) override { never(); }
    void do_matmul(const Tensor&, const Tensor&, const Tensor&) override { never(); }
    void do_rope(const Tensor&, const Tensor&, int64_t) override { never(); }
    void do_kv_stage(const LayerKv&, const Tensor&, const Tensor&) override { never(); }
    void do_kv_append(const LayerKv&, const Tensor&, const Tensor&, const RowsView&) override { never(); }
    void do_attention(const Tensor&, const Tensor&, const LayerKv&, const Tensor&, const RowsView&,
                      const TileRange&) override {
        never();
    }
    void do_swiglu(const Tensor&, const Tensor&) override { never(); }
    void do_add(const Tensor&, const Tensor&) override { never(); }
    void do_gather_rows(const Tensor&, const Tensor&, const Tensor&) override { never(); }
    void do_sample(const Tensor&, const Tensor&, int64_t, const Tensor&, const SamplingRule&) override { never(); }

    OrderedStream& stream_;
};

/// Slots of positions [first, end), which are in one tile: body(data, bytes) for the keys and for the values.
template <class Body>
void for_slots(const LayerKv& kv, int64_t sequence, int64_t first, int64_t end, const Body& body) {
    const int64_t width = kv.tiles.shape()[1], index = first / kTileTokens - kv.first_tile, slot = first % kTileTokens;
    const int64_t tile = static_cast<const int64_t*>(kv.tiles.data())[sequence * width + index];
    const auto* base = reinterpret_cast<const char*>(tile);
    const size_t bytes = static_cast<size_t>(kv.layout.head_dim) * size_of(kv.layout.k_type);
    body(base + static_cast<size_t>(slot) * bytes, static_cast<size_t>(end - first) * bytes);
    body(base + static_cast<size_t>(kTileTokens + slot) * bytes, static_cast<size_t>(end - first) * bytes);
}

inline void OrderedKernels::do_kv_keep(const LayerKv& kv, const Tensor& kept) {
    const Matrix<int32_t> list = kept.as<int32_t>();
    stream_.next_operation();
    for (int64_t i = 0; i < kept.rows(); ++i) {
        for_slots(kv, list(i, 2), list(i, 1), list(i, 1) + 1,
                  [&](const char* data, size_t bytes) { stream_.writes(data, bytes, "kv_keep"); });
    }
}

class CopyStory {
  public:
    /// Four layers; the last reads the KV of the first; the second lives on chip.
    static constexpr int64_t kLayers = 4, kContext = 2048, kCols = 8;

    explicit CopyStory(int64_t ring)
        : compute_(device_.make_stream("compute")),
          op_(stream()),
          kv_(device_, *compute_,
              {.layout = {.kv_heads = 1, .head_dim = 8, .k_type = DType::kF32, .v_type = DType::kF32},
               .owner_layers = 3,
               .sequences = 2,
               .context = kContext},
              {.on_chip = {false, true, false}, .reads = {0, 1, 2, 0}, .ring = ring, .span_bytes = 1}),
          rows_(device_, kv_.transport(), kContext, kCols, kPrefillRows, /*on_host=*/true) {}

    Ordering& order() { return *kv_.order(); }
    const std::string& race() const { return device_.race(); }

    void prefill(int sequence, int64_t n) {
        const int64_t first = kv_.length(sequence), chunks = (n + kPrefillRows - 1) / kPrefillRows;
        const auto rows_of = [&](int64_t chunk) { return std::min(kPrefillRows, n - chunk * kPrefillRows); };
        kv_.begin_prefill(sequence, n);
        rows_.begin(n);
        for (int64_t c = 0; c < chunks; ++c) {
            change(rows_.open(c, RowStore::Use::kWrite));
            rows_.close(c);
        }
        for (int64_t l = 0; l < kLayers; ++l) {
            const int64_t owner = owner_of(l);
            const bool writes = owner == l;
            const LayerKv kv = kv_.open_layer(owner, !writes);
            for (int64_t c = 0; c < chunks; ++c) {
                const int64_t at = first + c * kPrefillRows, rows = rows_of(c);
                const Tensor x = rows_.open(c, RowStore::Use::kChange);
                if (writes) kv_.open_rows(owner, at, rows);
                if (writes) touch(kv, sequence, at, at + rows, /*write=*/true, "kv_append");
                touch(kv, sequence, 0, at + rows, /*write=*/false, "prefill attention");
                change(x);
                rows_.close(c);
                if (writes) kv_.rows_written(owner, at, rows);
            }
            kv_.close_layer(owner);
        }
        look_at(rows_.open(chunks - 1, RowStore::Use::kRead));
        rows_.close(chunks - 1);
        kv_.end_prefill();
    }

    /// A forward of n rows, all of which one sequence keeps; another's may be in it, too.
    void decode(int sequence, int64_t n, bool other_too = false) {
        std::vector<RowGroup> groups;
        for (const int s : {0, 1}) {
            if (s != sequence && !other_too) continue;
            groups.push_back({.sequence = s, .first = s, .rows = n, .bound = kv_.length(s) + n});
        }
        kv_.begin(groups);
        for (int64_t l = 0; l < kLayers; ++l) {
            const int64_t owner = owner_of(l);
            const auto look = [&](const RowGroup& g, const LayerKv& kv, const TileRange& tiles) {
                const int64_t end = tiles.end == kEveryTile ? kContext : tiles.end * kTileTokens;
                touch(kv, g.sequence, tiles.first * kTileTokens, std::min(end, kv_.length(g.sequence)), /*write=*/false,
                      "attention");
            };
            if (kv_.on_chip(owner)) {
                for (const RowGroup& g : groups) look(g, kv_.layer(owner), {});
            } else {
                kv_.attend(owner, look);
            }
        }
        kv_.end();
        std::vector<int32_t> all(static_cast<size_t>(n));
        std::iota(all.begin(), all.end(), 0);
        kv_.keep(op_, sequence, all);
    }
    void truncate(int sequence, int64_t n) { kv_.truncate(sequence, n); }

  private:
    static int64_t owner_of(int64_t layer) { return layer == 3 ? 0 : layer; }
    OrderedStream& stream() { return static_cast<OrderedStream&>(*compute_); }

    /// Compute reads or writes positions [first, end) of a layer, in one operation.
    void touch(const LayerKv& kv, int64_t sequence, int64_t first, int64_t end, bool write, const char* what) {
        stream().next_operation();
        while (first < end) {
            const int64_t next = std::min(end, (first / kTileTokens + 1) * kTileTokens);
            for_slots(kv, sequence, first, next, [&](const char* data, size_t bytes) {
                write ? stream().writes(data, bytes, what) : stream().reads(data, bytes, what);
            });
            first = next;
        }
    }
    void look_at(const Tensor& x) {
        stream().next_operation();
        stream().reads(x.data(), x.bytes(), "the head");
    }
    void change(const Tensor& x) {
        stream().next_operation();
        stream().writes(x.data(), x.bytes(), "the layer");
    }

    OrderedDevice device_;
    std::unique_ptr<Stream> compute_;
    OrderedKernels op_;
    KvCache kv_;
    RowStore rows_;
};

}  // namespace trireme::test
