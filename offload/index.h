#pragma once
/// Three index types for layers, one for each numbering, so that the compiler rejects a mix-up.

#include <compare>
#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

namespace trireme {

template <class Of>
struct Index {
    int64_t i = 0;

    Index() = default;
    constexpr explicit Index(int64_t index) : i(index) {}
    size_t at() const { return static_cast<size_t>(i); }  // index into a vector
    Index& operator++() {
        ++i;
        return *this;
    }
    auto operator<=>(const Index&) const = default;
};

/// A layer of the model, as the checkpoint numbers it: 0 .. n_layers - 1.
using LayerIndex = Index<struct OfModel>;
/// An owner layer (one with keys and values of its own), numbered among the owners in layer order. Caches take these.
using OwnerIndex = Index<struct OfOwners>;
/// A streamed owner (its tiles are in host memory), numbered among the streamed ones in layer order. The parts of
/// offload/stream take these.
using StreamedIndex = Index<struct OfStreamed>;

}  // namespace trireme

template <class Of>
struct fmt::formatter<trireme::Index<Of>> : fmt::formatter<int64_t> {
    template <class Context>
    auto format(trireme::Index<Of> index, Context& context) const {
        return fmt::formatter<int64_t>::format(index.i, context);
    }
};
