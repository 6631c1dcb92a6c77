#pragma once
/// How ranks divide a long vector that they add together: each adds its slice, and gathers the others'.

#include <algorithm>
#include <cstdint>

namespace trireme {

struct Slice {
    int64_t begin, count;
};

/// Of n elements, rank `rank`'s of `ranks`: equal but for the last ones, and begun at multiples of `unit`.
inline Slice slice_of(int64_t n, int rank, int ranks, int64_t unit) {
    const int64_t length = ((n + ranks - 1) / ranks + unit - 1) / unit * unit;
    const int64_t begin = std::min(n, rank * length);
    return {begin, std::min(n, begin + length) - begin};
}

}  // namespace trireme
