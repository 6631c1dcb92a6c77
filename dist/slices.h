#pragma once
/// How ranks divide a long vector that they add together: each adds its slice, and gathers the others'.

#include <algorithm>
#include <cstdint>

namespace trireme {

struct Slice {
    int64_t begin, count;
};

struct Slicing {
    int64_t whole;  // elements: up to here every rank gets all parts and adds everything
    int64_t unit;   // slices begin at multiples of it

    /// Of n elements, rank `rank`'s of `ranks`: all of them, or slices that are equal but for the last ones.
    Slice of(int64_t n, int rank, int ranks) const {
        if (n <= whole) return {0, n};
        const int64_t length = ((n + ranks - 1) / ranks + unit - 1) / unit * unit;
        const int64_t begin = std::min(n, rank * length);
        return {begin, std::min(n, begin + length) - begin};
    }
};

}  // namespace trireme
