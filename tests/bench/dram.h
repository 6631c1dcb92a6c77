#pragma once
/// DRAM read rate of the machine: the limit of decoding.

#include <cstddef>
#include <memory>

namespace trireme::bench {

/// A buffer on huge pages, much larger than the last-level cache.
class DramReader {
  public:
    explicit DramReader(size_t bytes = size_t{512} << 20);
    ~DramReader();
    DramReader(const DramReader&) = delete;
    DramReader& operator=(const DramReader&) = delete;

    /// Reads the buffer once with this many threads; returns bytes per second.
    double pass(int threads);
    size_t bytes() const { return bytes_; }

  private:
    float* data_;
    size_t bytes_;
};

}  // namespace trireme::bench
