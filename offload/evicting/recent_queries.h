#pragma once
/// RecentQueries: the queries of a sequence's most recent tokens, in every layer. EvictingCache re-scores retained
/// tokens with them during decoding (policies that observe), and at the end of a prompt (expected).

#include <array>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "offload/index.h"
#include "runtime/archive.h"
#include "runtime/buffer.h"

namespace trireme {

class RecentQueries {
  public:
    /// Stores the queries of the last `tokens` tokens, f32 [layers * columns] each. All work is enqueued on `compute`.
    /// Errors: Exit::kOs.
    RecentQueries(Device& device, Stream& compute, int64_t layers, int64_t columns, int64_t tokens);
    /// Bytes of device memory.
    static size_t memory(int64_t layers, int64_t columns, int64_t tokens);

    /// Stores a prompt's rows q f32 [rows, columns]: the sequence's tokens from `token` on, with RoPE positions from
    /// `position` on.
    void take(Kernels& op, LayerIndex layer, const Tensor& q, int64_t token, int64_t position);
    /// Stores a decode step's row q f32 [1, columns] of a layer.
    void stage(Kernels& op, LayerIndex layer, const Tensor& q);
    /// Makes the staged row, in all layers, the sequence's token `token`, whose RoPE position is `position`.
    void keep(int64_t token, int64_t position);

    /// A contiguous part of a layer's queries, f32 [rows, columns].
    struct Part {
        int64_t first = 0;  // token of the first row
        Tensor q;
    };
    struct Parts {
        std::array<Part, 2> all;
        size_t n = 0;
        std::span<const Part> span() const { return std::span(all).first(n); }
    };
    /// The queries of tokens [first, first + n), which must be among the last ones.
    Parts parts(LayerIndex layer, int64_t first, int64_t n) const;
    /// A token's position when its query was computed.
    int64_t position(int64_t token) const { return positions_[place(token)]; }

    /// Takes over the queries of `other`, of the same size and stream.
    void copy_from(const RecentQueries& other);
    /// Copies the queries, for a truncation to the present length.
    void save();
    /// Restores the queries that save() has copied.
    void restore();
    void state(Archive& ar) {
        ar.section("recent queries");
        ar.memory(compute_, ring_);
        ar.memory(compute_, saved_);
        ar.values(positions_);
        ar.values(saved_positions_);
    }

  private:
    size_t place(int64_t token) const { return static_cast<size_t>(token % tokens_); }

    Stream& compute_;
    int64_t columns_, tokens_;
    Arena<Space::kDevice> device_;
    Tensor ring_, saved_, staged_, numbers_;  // [tokens, layers * columns] twice, [1, ...], i32 [tokens]: 0, 1, ..
    std::vector<int64_t> positions_, saved_positions_;
};

}  // namespace trireme
