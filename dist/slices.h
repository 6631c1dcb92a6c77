#pragma once
/// Slicing: how ranks divide a long vector that they add together. Each adds its slice, and gathers the others'.

#include <algorithm>
#include <cstdint>

namespace trireme {

struct Slice {
    int64_t begin, count;
};

struct Slicing {
    int64_t whole;  // elements: up to this length every rank gets all parts and adds everything
    int64_t unit;   // slices begin at multiples of this

    /// Returns the elements that `rank` adds: all n, or a slice. Slices are equal, except for the last ones.
    Slice of(int64_t n, int rank, int ranks) const {
        if (n <= whole) return {0, n};
        const int64_t length = ((n + ranks - 1) / ranks + unit - 1) / unit * unit;
        const int64_t begin = std::min(n, rank * length);
        return {begin, std::min(n, begin + length) - begin};
    }
};

}  // namespace trireme
