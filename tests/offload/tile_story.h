#pragma once
/// A KvCache lives through a request, its tiles told apart by what they hold: every slot has the number that its layer,
/// sequence, position and generation give, and every one's digest is taken where it is written and where it arrives.

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <vector>

#include "offload/kv_cache.h"

namespace trireme::test {

class TileStory {
  public:
    static constexpr int64_t kLayers = 3, kDim = 8;

    /// Layer 1 lives on chip.
    TileStory(Device& device, int64_t context)
        : compute_(device.make_stream("compute")),
          op_(make_kernels(device, *compute_, Phase::kDecode, kLimits)),
          append_(make_kernels(device, *compute_, Phase::kPrefill, kPrefillLimits)),
          kv_(device, *compute_,
              {.layout = {.kv_heads = 1, .head_dim = kDim, .k_type = DType::kF32, .v_type = DType::kF32},
               .owner_layers = kLayers,
               .context = context},
              {.on_chip = {false, true, false}, .ring = 2, .span_bytes = size_t{32} << 10, .verify = true}),
          rows_(device, kPrefillRows * kDim * sizeof(float)),
          positions_(device, 2 * kPrefillRows * sizeof(int32_t)) {}
    ~TileStory() { compute_->drain(); }

    KvCache& kv() { return kv_; }

    void prefill(int64_t n) {
        const int64_t first = kv_.length(0);
        begin_generation(first, n);
        kv_.begin_prefill(0, n);
        for (int64_t l = 0; l < kLayers; ++l) {
            const LayerKv kv = kv_.open_layer(l, false);
            for (int64_t done = 0; done < n; done += kPrefillRows) {
                const int64_t rows = std::min(kPrefillRows, n - done);
                fill(l, first + done, rows);
                kv_.open_rows(l, first + done, rows);
                append_->kv_append(kv, matrix(rows), matrix(rows), view(first + done, rows));
                kv_.rows_written(l, first + done, rows);
            }
            kv_.close_layer(l);
        }
        kv_.end_prefill();
    }

    /// A forward that brings everything, of n rows, which are kept.
    void decode(int64_t n) {
        const int64_t first = kv_.length(0);
        const RowGroup group{.sequence = 0, .first = 0, .rows = n, .bound = first + n};
        begin_generation(first, n);
        kv_.begin({&group, 1});
        for (int64_t l = 0; l < kLayers; ++l) {
            fill(l, first, n);
            op_->kv_stage(kv_.layer(l), matrix(n), matrix(n));
            if (!kv_.on_chip(l)) kv_.attend(l, [](const RowGroup&, const LayerKv&, const TileRange&) {});
        }
        kv_.end();
        std::vector<int32_t> all(static_cast<size_t>(n));
        std::iota(all.begin(), all.end(), 0);
        kv_.keep(*op_, 0, all);
    }
    void truncate(int64_t n) { kv_.truncate(0, n); }
    void finish() {
        compute_->synchronize();
        sent_.clear();
        sent_positions_.clear();
    }

  private:
    static constexpr KernelLimits kLimits{.max_rows = kMaxRows, .max_k = 16, .max_n = 16, .heads = 1, .head_dim = kDim};
    static constexpr KernelLimits kPrefillLimits{
        .max_rows = kPrefillRows, .max_k = 16, .max_n = 16, .heads = 1, .head_dim = kDim};

    /// Positions are written anew from here on: with other numbers than those before.
    void begin_generation(int64_t first, int64_t n) {
        ++generation_;
        of_position_.resize(static_cast<size_t>(first + n));
        std::fill(of_position_.begin() + first, of_position_.end(), generation_);
    }
    float number(int64_t layer, int64_t position) const {
        return static_cast<float>(of_position_[static_cast<size_t>(position)] * 100000 + layer * 20000 + position);
    }
    Tensor matrix(int64_t rows) const { return rows_.tensor(DType::kF32, {rows, kDim}); }
    void fill(int64_t layer, int64_t first, int64_t rows) {
        std::vector<float>& from = sent_.emplace_back();
        for (int64_t r = 0; r < rows; ++r) from.insert(from.end(), kDim, number(layer, first + r));
        compute_->copy(matrix(rows), HostTensor(from.data(), DType::kF32, {rows, kDim}));
    }
    RowsView view(int64_t first, int64_t rows) {
        std::vector<int32_t>& from = sent_positions_.emplace_back(static_cast<size_t>(2 * rows), 0);
        std::iota(from.begin(), from.begin() + rows, static_cast<int32_t>(first));
        compute_->copy(positions_.tensor(DType::kI32, {2 * rows}), HostTensor(from.data(), DType::kI32, {2 * rows}));
        const Tensor both = positions_.tensor(DType::kI32, {2 * rows});
        return {.positions = both.first_rows(rows),
                .sequences = both.slice_rows(rows, rows),
                .committed = {},
                .ancestors = {},
                .max_positions = first + rows};
    }
    std::unique_ptr<Stream> compute_;
    std::unique_ptr<Kernels> op_, append_;
    KvCache kv_;
    Buffer<Space::kDevice> rows_;
    Buffer<Space::kDevice> positions_;
    // What the streams still read: kept until finish().
    std::deque<std::vector<float>> sent_;
    std::deque<std::vector<int32_t>> sent_positions_;
    std::vector<int64_t> of_position_;
    int64_t generation_ = 0;
};

}  // namespace trireme::test
