#pragma once
/// The queries of a sequence's most recent tokens, in every layer: for policies that re-score during decoding.

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
    /// Stores the queries of `tokens` tokens, f32 [layers * columns] each. Errors: Exit::kOs.
    RecentQueries(Device& device, Stream& compute, int64_t layers, int64_t columns, int64_t tokens);
    static size_t memory(int64_t layers, int64_t columns, int64_t tokens);

    /// Stores rows of a prompt: the sequence's tokens from `token` on, at the positions from `position` on.
    void take(Kernels& op, LayerIndex layer, const Tensor& q, int64_t token, int64_t position);
    /// Stores a decode step's row; keep() makes it the sequence's token `token`, at `position`.
    void stage(Kernels& op, LayerIndex layer, const Tensor& q);
    void keep(int64_t token, int64_t position);

    /// A contiguous part of a layer's queries, f32 [rows, columns]. parts() returns those of tokens [first, first + n).
    struct Part {
        int64_t first = 0;  // token
        Tensor q;
    };
    struct Parts {
        std::array<Part, 2> all;
        size_t n = 0;
        std::span<const Part> span() const { return std::span(all).first(n); }
    };
    Parts parts(LayerIndex layer, int64_t first, int64_t n) const;
    /// A token's position when its query was computed.
    int64_t position(int64_t token) const { return positions_[place(token)]; }

    void save();
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
