#pragma once
/// The ways in which layers are counted. One is not taken for another: each is a type of its own.

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
    size_t at() const { return static_cast<size_t>(i); }  // into a vector
    Index& operator++() {
        ++i;
        return *this;
    }
    auto operator<=>(const Index&) const = default;
};

/// A layer of the model, as the checkpoint numbers it: 0 .. n_layers - 1.
using LayerIndex = Index<struct OfModel>;
/// A layer among those that have keys and values of their own (owners), in layer order: what a view is asked for.
using OwnerIndex = Index<struct OfOwners>;
/// An owner among those whose tiles lie in host memory, in layer order: what the parts of offload/stream are asked for.
using StreamedIndex = Index<struct OfStreamed>;

}  // namespace trireme

template <class Of>
struct fmt::formatter<trireme::Index<Of>> : fmt::formatter<int64_t> {
    template <class Context>
    auto format(trireme::Index<Of> index, Context& context) const {
        return fmt::formatter<int64_t>::format(index.i, context);
    }
};
