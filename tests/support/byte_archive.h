#pragma once
/// ByteArchive: an archive in memory. Tensors must be of a CPU device.

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/archive.h"

namespace trireme::test {

class ByteArchive final : public Archive {
  public:
    /// From now on it gives what it was given.
    void rewind() { loads_ = true; }
    std::span<const std::byte> all() const { return all_; }
    size_t rest() const { return left(); }
    bool loads() const override { return loads_; }
    void memory(Stream& stream, const Tensor& tensor) override { memory(stream, tensor.data(), tensor.bytes()); }
    void memory(Stream& stream, const HostTensor& tensor) override { memory(stream, tensor.data(), tensor.bytes()); }
    void produce(size_t n, std::function<void(void*)> fill) override {
        check(!loads_, "an archive that loads produces nothing");
        std::vector<std::byte> made(n);
        fill(made.data());
        bytes(made);
    }

  protected:
    void bytes(std::span<std::byte> bytes) override {
        if (!loads_) return void(all_.insert(all_.end(), bytes.begin(), bytes.end()));
        require(bytes.size() <= left(), Exit::kData, "memory: {} bytes are left of {}", left(), bytes.size());
        std::copy_n(all_.begin() + static_cast<std::ptrdiff_t>(at_), bytes.size(), bytes.begin());
        at_ += bytes.size();
    }
    uint64_t left() const override { return all_.size() - at_; }
    std::string_view where() const override { return "memory"; }

  private:
    void memory(Stream& stream, void* data, size_t n) {
        stream.synchronize();
        bytes({static_cast<std::byte*>(data), n});
    }

    std::vector<std::byte> all_;
    size_t at_ = 0;
    bool loads_ = false;
};

}  // namespace trireme::test
