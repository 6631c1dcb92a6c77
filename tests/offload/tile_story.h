#pragma once
/// A cache over a whole request. Every slot holds a number made of its layer, position and generation, so that tiles
/// differ; every tile's digest is taken where it is written and where it arrives.

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <vector>

#include "offload/full/full_cache.h"
#include "tests/offload/kv_kernels.h"

namespace trireme::test {

/// The kernels of a device, but without attention: the test checks what moves, not what is computed from it.
class MovingKernels final : public KvKernels {
  public:
    MovingKernels(Device& device, Stream& stream, Phase phase)
        : KvKernels(phase), real_(make_kernels(device, stream, phase, limits())) {}

  private:
    void do_kv_stage(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows) override {
        real_->kv_stage(kv, k, v, rows);
    }
    void do_kv_append(const LayerKv& kv, const Tensor& k, const Tensor& v, const RowsView& rows,
                      const Tensor&) override {
        real_->kv_append(kv, k, v, rows);
    }
    void do_kv_keep(std::span<const LayerKv> layers, const Tensor& kept) override { real_->kv_keep(layers, kept); }
    void do_attention(const Tensor&, const Tensor&, const LayerKv&, const Tensor&, const RowsView&, const TileRange&,
                      const AttentionReport&) override {}

    std::unique_ptr<Kernels> real_;
};

class TileStory {
  public:
    static constexpr int64_t kLayers = 3, kDim = 8;

    /// Layer 1 is on chip.
    TileStory(Device& device, int64_t context, bool coded = false)
        : compute_(device.make_stream("compute")),
          op_(device, *compute_, Phase::kDecode),
          append_(device, *compute_, Phase::kPrefill),
          kv_(device, *compute_,
              {.layout = {.kv_heads = 1,
                          .head_dim = kDim,
                          .k_type = coded ? DType::kBF16 : DType::kF32,
                          .v_type = coded ? DType::kBF16 : DType::kF32},
               .owner_layers = kLayers,
               .context = context},
              {.on_chip = {false, true, false},
               .ring = 2,
               .span_bytes = size_t{32} << 10,
               .verify = true,
               .coded = coded}),
          rows_(device, kPrefillRows * kDim * sizeof(float)),
          integers_(device, kIntegers * sizeof(int32_t)) {}
    ~TileStory() { compute_->drain(); }

    FullCache& kv() { return kv_; }

    void prefill(int64_t n) {
        const int64_t first = kv_.length(0);
        begin_generation(first, n);
        kv_.begin_prefill(0, n);
        for (OwnerIndex l; l.i < kLayers; ++l) {
            kv_.begin_layer(l, KvCache::Pass::kWrites);
            for (int64_t done = 0; done < n; done += kPrefillRows) {
                const int64_t rows = std::min(kPrefillRows, n - done);
                fill(l, first + done, rows);
                kv_.write(append_, l, matrix(rows), matrix(rows), cache(first + done, rows));
            }
        }
        kv_.end();
    }

    /// A forward of n rows, which are kept. It transfers all tiles.
    void decode(int64_t n) {
        const int64_t first = kv_.length(0);
        const RowGroup group{.sequence = 0, .first = 0, .rows = n, .bound = first + n};
        begin_generation(first, n);
        kv_.drop();
        for (int32_t r = 0; r < n; ++r) kv_.stage(0, r - 1);
        kv_.begin({&group, 1});
        for (OwnerIndex l; l.i < kLayers; ++l) {
            fill(l, first, n);
            const RowsView rows = cache(first, n);
            kv_.write(op_, l, matrix(n), matrix(n), rows);
            kv_.attend(op_, l, {matrix(n), matrix(n), integers(kKvOfHead, 1), rows});
        }
        kv_.end();
        std::vector<int32_t> all(static_cast<size_t>(n));
        std::iota(all.begin(), all.end(), 0);
        kv_.keep(op_, 0, all);
    }
    void truncate(int64_t n) { kv_.truncate(0, n); }
    void finish() {
        compute_->synchronize();
        sent_.clear();
        sent_integers_.clear();
    }

  private:
    /// Begins a generation: from `first` on, positions get other numbers than before.
    void begin_generation(int64_t first, int64_t n) {
        ++generation_;
        of_position_.resize(static_cast<size_t>(first + n));
        std::fill(of_position_.begin() + first, of_position_.end(), generation_);
    }
    float number(OwnerIndex layer, int64_t position) const {
        return static_cast<float>(of_position_[static_cast<size_t>(position)] * 100000 + layer.i * 20000 + position);
    }
    Tensor matrix(int64_t rows) const { return rows_.tensor(DType::kF32, {rows, kDim}); }
    Tensor integers(int64_t first, int64_t n) const {
        return Tensor(static_cast<int32_t*>(integers_.data()) + first, DType::kI32, {n});
    }
    void fill(OwnerIndex layer, int64_t first, int64_t rows) {
        std::vector<float>& from = sent_.emplace_back();
        for (int64_t r = 0; r < rows; ++r) from.insert(from.end(), kDim, number(layer, first + r));
        compute_->copy(matrix(rows), HostTensor(from.data(), DType::kF32, {rows, kDim}));
    }
    /// Rows from slot `first` on: rows of a prompt, or a chain after `first` cached slots.
    RowsView cache(int64_t first, int64_t rows) {
        std::vector<int32_t>& from = sent_integers_.emplace_back(static_cast<size_t>(kIntegers), 0);
        const auto at = [&](int64_t i) { return from.begin() + i; };
        std::iota(at(0), at(rows), static_cast<int32_t>(first));
        std::fill(at(kCached), at(kCached + rows), static_cast<int32_t>(first));
        for (int64_t r = 0; r < kMaxRows; ++r) {
            std::iota(at(kAncestors + r * kMaxRows), at(kAncestors + (r + 1) * kMaxRows), 0);
        }
        compute_->copy(integers(0, kIntegers), HostTensor(from.data(), DType::kI32, {kIntegers}));
        const int64_t n = std::min(rows, kMaxRows);
        return {.slots = integers(0, rows),
                .sequences = integers(kSequences, rows),
                .cached = integers(kCached, rows),
                .ancestors = Tensor(integers(kAncestors, n * kMaxRows).data(), DType::kI32, {n, kMaxRows}),
                .max_slots = first + rows};
    }

    // The offset of each kind of integer. Sequences, and the KV head of the one head, are 0.
    static constexpr int64_t kSequences = kPrefillRows, kCached = 2 * kPrefillRows, kAncestors = 3 * kPrefillRows,
                             kKvOfHead = kAncestors + kMaxRows * kMaxRows, kIntegers = kKvOfHead + 1;
    std::unique_ptr<Stream> compute_;
    MovingKernels op_, append_;
    FullCache kv_;
    Buffer<Space::kDevice> rows_;
    Buffer<Space::kDevice> integers_;
    // Memory that the streams still read: kept until finish().
    std::deque<std::vector<float>> sent_;
    std::deque<std::vector<int32_t>> sent_integers_;
    std::vector<int64_t> of_position_;
    int64_t generation_ = 0;
};

}  // namespace trireme::test
