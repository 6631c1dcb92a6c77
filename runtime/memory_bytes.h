#pragma once
/// MemoryBytes: how much device memory and pinned host memory a part of a run needs, in bytes.

#include <cstddef>

namespace trireme {

struct MemoryBytes {
    size_t device = 0, host = 0;

    MemoryBytes& operator+=(const MemoryBytes& b) {
        device += b.device;
        host += b.host;
        return *this;
    }
    MemoryBytes& operator-=(const MemoryBytes& b) {
        device -= b.device;
        host -= b.host;
        return *this;
    }
    friend MemoryBytes operator+(MemoryBytes a, const MemoryBytes& b) { return a += b; }
    friend MemoryBytes operator-(MemoryBytes a, const MemoryBytes& b) { return a -= b; }
    bool operator==(const MemoryBytes&) const = default;
    friend MemoryBytes operator*(int64_t n, const MemoryBytes& m) {
        return {static_cast<size_t>(n) * m.device, static_cast<size_t>(n) * m.host};
    }
};

}  // namespace trireme
