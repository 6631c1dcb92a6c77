#pragma once
/// GgufReader: little-endian values from the front of a GGUF file, each checked against the bytes that are left.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "model/files/byte_source.h"

namespace trireme {

class GgufReader {
  public:
    /// Reads at most limits::kGgufHeader bytes.
    explicit GgufReader(const ByteSource& source);

    uint64_t position() const { return position_; }
    /// Bytes that may still be read.
    uint64_t left() const { return end_ - position_; }
    const std::string& name() const { return source_.name(); }

    template <class T>
    T value() {
        T v;
        std::byte raw[sizeof(T)];
        take(raw);
        std::memcpy(&v, raw, sizeof(T));
        return v;
    }
    /// Reads a length of 8 bytes, then that many bytes. Errors: Exit::kData beyond `most`.
    std::string string(uint64_t most);
    void skip(uint64_t bytes);
    /// Throws Exit::kData unless `count` items of at least `bytes` each can follow.
    void require_room(uint64_t count, uint64_t bytes, const char* what) const;

  private:
    void take(std::span<std::byte> out);

    const ByteSource& source_;
    uint64_t position_ = 0, end_;
    uint64_t window_at_ = 0;  // position of window_[0] in the file
    std::vector<std::byte> window_;
};

}  // namespace trireme
