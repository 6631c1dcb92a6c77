#pragma once
/// Slicing: the division of an all_reduce among ranks, in MpiComm and NcclComm. Of a long vector each rank sums one
/// slice over all ranks, then receives the other summed slices.

#include <algorithm>
#include <cstdint>

namespace trireme {

/// Elements [begin, begin + count) of a vector.
struct Slice {
    int64_t begin, count;
};

struct Slicing {
    int64_t whole;  // elements: up to this length every rank receives all vectors and sums them whole
    int64_t unit;   // slices begin at multiples of this

    /// Returns the elements of a vector of n that `rank` sums: all of them, or a slice. Slices are equal, except that
    /// the last one with elements may be shorter, and the slices of later ranks are empty.
    Slice of(int64_t n, int rank, int ranks) const {
        if (n <= whole) return {0, n};
        const int64_t length = ((n + ranks - 1) / ranks + unit - 1) / unit * unit;
        const int64_t begin = std::min(n, rank * length);
        return {begin, std::min(n, begin + length) - begin};
    }
};

}  // namespace trireme
