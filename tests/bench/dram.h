#pragma once
/// What the machine's memory gives to a plain read: the limit that decode is measured against.

#include <cstddef>
#include <memory>

namespace trireme::bench {

/// A buffer well beyond the last-level cache, on huge pages.
class DramReader {
  public:
    explicit DramReader(size_t bytes = size_t{512} << 20);
    ~DramReader();
    DramReader(const DramReader&) = delete;
    DramReader& operator=(const DramReader&) = delete;

    /// Reads it all once with this many threads; bytes per second.
    double pass(int threads);
    size_t bytes() const { return bytes_; }

  private:
    float* data_;
    size_t bytes_;
};

}  // namespace trireme::bench
