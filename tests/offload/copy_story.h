#pragma once
/// A request as the copy path sees it: prompts, decode forwards, truncation and growth. It runs on a device that
/// detects unordered accesses. Kernels report what they access and compute nothing: the bytes do not matter.

#include <numeric>
#include <vector>

#include "offload/full/full_cache.h"
#include "offload/stream/row_store.h"
#include "tests/offload/kv_kernels.h"
#include "tests/offload/ordered_device.h"

namespace trireme::test {

/// Calls body(data, bytes) for the keys, and for the values, of positions [first, end), which are in one tile.
template <class Body>
void for_slots(const LayerKv& kv, int64_t sequence, int64_t first, int64_t end, const Body& body) {
    const int64_t width = kv.tiles.shape()[1], index = first / kTileTokens - kv.first_tile, slot = first % kTileTokens;
    const int64_t tile = static_cast<const int64_t*>(kv.tiles.data())[sequence * width + index];
    const auto* base = reinterpret_cast<const char*>(tile);
    const size_t bytes = static_cast<size_t>(kv.layout.head_dim) * size_of(kv.layout.k_type);
    body(base + static_cast<size_t>(slot) * bytes, static_cast<size_t>(end - first) * bytes);
    body(base + static_cast<size_t>(kTileTokens + slot) * bytes, static_cast<size_t>(end - first) * bytes);
}

/// The kernels that a cache calls, on one stream.
class OrderedKernels final : public KvKernels {
  public:
    OrderedKernels(OrderedStream& stream, Phase phase) : KvKernels(phase), stream_(stream) {}

    /// Accesses positions [first, end) of a sequence in one operation.
    void touch(const LayerKv& kv, int64_t sequence, int64_t first, int64_t end, bool write, const char* what) {
        stream_.next_operation();
        while (first < end) {
            const int64_t next = std::min(end, (first / kTileTokens + 1) * kTileTokens);
            for_slots(kv, sequence, first, next, [&](const char* data, size_t bytes) {
                write ? stream_.writes(data, bytes, what) : stream_.reads(data, bytes, what);
            });
            first = next;
        }
    }

  private:
    static int64_t of(const Tensor& t, int64_t row) { return *t.as<int32_t>().row(row); }

    void do_kv_stage(const LayerKv&, const Tensor&, const Tensor&, const RowsView&) override {
    }  // staged rows never leave the device
    void do_kv_append(const LayerKv& kv, const Tensor& k, const Tensor&, const RowsView& rows, const Tensor&) override {
        const int64_t first = of(rows.slots, 0);
        touch(kv, of(rows.sequences, 0), first, first + k.rows(), /*write=*/true, "kv_append");
    }
    void do_kv_keep(std::span<const LayerKv> layers, const Tensor& kept) override {
        const Matrix<int32_t> list = kept.as<int32_t>();
        stream_.next_operation();
        for (const LayerKv& kv : layers) {
            for (int64_t i = 0; i < kept.rows(); ++i) {
                for_slots(kv, list(i, 2), list(i, 1), list(i, 1) + 1,
                          [&](const char* data, size_t bytes) { stream_.writes(data, bytes, "kv_keep"); });
            }
        }
    }
    /// Reads the part of each sequence that is in these tiles.
    void do_attention(const Tensor&, const Tensor& q, const LayerKv& kv, const Tensor&, const RowsView& rows,
                      const TileRange& tiles, const AttentionReport&) override {
        for (int64_t r = 0; r < q.rows(); ++r) {
            const bool prefill = phase() == Phase::kPrefill;
            if (r + 1 < q.rows() && (prefill || of(rows.sequences, r + 1) == of(rows.sequences, r))) continue;
            const int64_t seen = prefill ? of(rows.slots, r) + 1 : of(rows.cached, r);
            const int64_t end = tiles.end == kEveryTile ? seen : std::min(seen, tiles.end * kTileTokens);
            touch(kv, of(rows.sequences, r), tiles.first * kTileTokens, end, /*write=*/false, "attention");
        }
    }

    OrderedStream& stream_;
};

class CopyStory {
  public:
    /// Four layers; the last reads the KV of the first; the second is on chip.
    static constexpr int64_t kLayers = 4, kContext = 2048, kCols = 8;

    /// `frames`: one of them holds the layer that two layers read. `common`: tokens that both sequences share.
    explicit CopyStory(int64_t ring, int64_t frames = 0, int64_t common = 0, bool coded = false)
        : compute_(device_.make_stream("compute")),
          op_(stream(), Phase::kDecode),
          append_(stream(), Phase::kPrefill),
          kv_(device_, *compute_,
              {.layout = {.kv_heads = 1, .head_dim = 8, .k_type = type(coded), .v_type = type(coded)},
               .owner_layers = 3,
               .sequences = 2,
               .context = kContext,
               .common = common},
              {.on_chip = {false, true, false}, .ring = ring, .frames = frames, .span_bytes = 1, .coded = coded},
              reads()),
          rows_(device_, kv_.transport(), kContext, kCols, kPrefillRows, /*on_host=*/true) {}

    Ordering& order() { return kv_.transport()->order(); }
    const std::string& race() const { return device_.race(); }

    /// Takes `passes` over all layers, one after the other. `alone`: in the last pass, from the third layer (the
    /// highest owner) on, all rows get only keys and values, and then the last row continues alone.
    void prefill(int sequence, int64_t n, int passes = 1, bool alone = false) {
        const int64_t first = kv_.length(sequence), blocks = (n + kPrefillRows - 1) / kPrefillRows;
        const int64_t all_rows = passes * kLayers - (alone ? 2 : 0);
        kv_.begin_prefill(sequence, n);
        rows_.begin(n);
        for (int64_t b = 0; b < blocks; ++b) {
            change(rows_.open(b, RowStore::Use::kWrite));
            rows_.close(b);
        }
        for (int64_t i = 0; i < all_rows; ++i) {
            const int64_t l = i % kLayers;
            const OwnerIndex owner = owner_of(l);
            const bool writes = owner.i == l;
            kv_.begin_layer(owner, writes ? KvCache::Pass::kWrites : KvCache::Pass::kReads);
            for (int64_t b = 0; b < blocks; ++b) {
                const int64_t rows = std::min(kPrefillRows, n - b * kPrefillRows);
                const RowsView cache = prompt_rows(sequence, first + b * kPrefillRows, rows);
                const Tensor x = rows_.open(b, RowStore::Use::kChange);
                if (writes) kv_.write(append_, owner, matrix(rows), matrix(rows), cache);
                kv_.attend(append_, owner, {matrix(rows), matrix(rows), kv_of_head(), cache});
                change(x);
                rows_.close(b);
            }
        }
        if (alone) finish_alone(sequence, first, n);
        kv_.end();
        look_at(rows_.open(blocks - 1, RowStore::Use::kRead));
        rows_.close(blocks - 1);
    }

    /// A forward of n rows, all of which one sequence keeps. `other_too`: it also has rows of the other sequence.
    void decode(int sequence, int64_t n, bool other_too = false) {
        std::vector<RowGroup> groups;
        for (const int s : {0, 1}) {
            if (s != sequence && !other_too) continue;
            groups.push_back({.sequence = s,
                              .first = static_cast<int64_t>(groups.size()) * n,
                              .rows = n,
                              .bound = kv_.length(s) + n});
        }
        kv_.drop();
        for (const RowGroup& g : groups) {
            for (int64_t r = 0; r < g.rows; ++r) kv_.stage(g.sequence, r == 0 ? -1 : kv_.staged().size() - 1);
        }
        kv_.begin(groups);
        const RowsView cache = decode_rows(groups);
        const int64_t rows = cache.slots.rows();
        for (int64_t l = 0; l < kLayers; ++l) {
            kv_.attend(op_, owner_of(l), {matrix(rows), matrix(rows), kv_of_head(), cache});
        }
        kv_.end();
        std::vector<int32_t> all(static_cast<size_t>(n));
        const int64_t first = groups.front().sequence == sequence ? 0 : n;
        std::iota(all.begin(), all.end(), static_cast<int32_t>(first));
        kv_.keep(op_, sequence, all);
    }
    void truncate(int sequence, int64_t n) { kv_.truncate(sequence, n); }
    /// The second sequence begins with the first one's tokens.
    void fork() { kv_.fork(1); }

  private:
    static DType type(bool coded) { return coded ? DType::kBF16 : DType::kF32; }
    static OwnerIndex owner_of(int64_t layer) { return OwnerIndex(layer == 3 ? 0 : layer); }
    static std::vector<OwnerIndex> reads() {
        std::vector<OwnerIndex> owners;
        for (int64_t l = 0; l < kLayers; ++l) owners.push_back(owner_of(l));
        return owners;
    }
    OrderedStream& stream() { return static_cast<OrderedStream&>(*compute_); }

    void finish_alone(int sequence, int64_t first, int64_t n) {
        const OwnerIndex highest(2);
        kv_.begin_layer(highest, KvCache::Pass::kWrites);
        for (int64_t done = 0; done < n; done += kPrefillRows) {
            const int64_t rows = std::min(kPrefillRows, n - done);
            look_at(rows_.open(done / kPrefillRows, RowStore::Use::kRead));
            kv_.write(append_, highest, matrix(rows), matrix(rows), prompt_rows(sequence, first + done, rows));
            rows_.close(done / kPrefillRows);
        }
        for (int64_t l = highest.i; l < kLayers; ++l) {
            kv_.begin_layer(owner_of(l), KvCache::Pass::kReads);
            kv_.attend(append_, owner_of(l),
                       {matrix(1), matrix(1), kv_of_head(), prompt_rows(sequence, first + n - 1, 1)});
        }
    }
    /// Operands that no kernel reads, and at most the host does: the kernels report their accesses themselves.
    Tensor matrix(int64_t rows) { return Tensor(matrix_.data(), DType::kF32, {rows, kCols}); }
    Tensor integers(size_t from, int64_t n) { return Tensor(integers_.data() + from, DType::kI32, {n}); }
    Tensor kv_of_head() { return Tensor(&kv_of_head_, DType::kI32, {1}); }
    RowsView rows_view(int64_t rows, int64_t bound) {
        return {.slots = integers(0, rows),
                .sequences = integers(kPrefillRows, rows),
                .cached = integers(2 * kPrefillRows, rows),
                .ancestors = Tensor(ancestors_.data(), DType::kI32, {std::min(rows, kMaxRows), kMaxRows}),
                .max_slots = bound};
    }
    RowsView prompt_rows(int sequence, int64_t first, int64_t n) {
        for (int64_t r = 0; r < n; ++r) {
            integers_[static_cast<size_t>(r)] = static_cast<int32_t>(first + r);
            integers_[static_cast<size_t>(kPrefillRows + r)] = sequence;
        }
        return rows_view(n, first + n);
    }
    RowsView decode_rows(const std::vector<RowGroup>& groups) {
        int64_t bound = 0, rows = 0;
        for (const RowGroup& g : groups) {
            for (int64_t r = g.first; r < g.first + g.rows; ++r) {
                integers_[static_cast<size_t>(kPrefillRows + r)] = static_cast<int32_t>(g.sequence);
                integers_[static_cast<size_t>(2 * kPrefillRows + r)] = static_cast<int32_t>(kv_.length(g.sequence));
            }
            bound = std::max(bound, g.bound);
            rows += g.rows;
        }
        return rows_view(rows, bound);
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
    OrderedKernels op_, append_;
    FullCache kv_;
    RowStore rows_;
    std::vector<float> matrix_ = std::vector<float>(2 * kPrefillRows * kCols);
    std::vector<int32_t> integers_ = std::vector<int32_t>(3 * kPrefillRows),
                         ancestors_ = std::vector<int32_t>(kMaxRows * kMaxRows);
    int32_t kv_of_head_ = 0;
};

}  // namespace trireme::test
