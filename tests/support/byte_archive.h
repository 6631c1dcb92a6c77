#pragma once
/// ByteArchive: an archive in memory, of values only.

#include <algorithm>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/archive.h"

namespace trireme::test {

class ByteArchive final : public Archive {
  public:
    /// From now on it gives what it was given.
    void rewind() { loads_ = true; }
    std::span<const std::byte> all() const { return all_; }
    bool loads() const override { return loads_; }
    void memory(Stream&, const Tensor&) override { ADD_FAILURE(); }
    void memory(Stream&, const HostTensor&) override { ADD_FAILURE(); }
    void produce(size_t, std::function<void(void*)>) override { ADD_FAILURE(); }

  protected:
    void bytes(std::span<std::byte> bytes) override {
        if (!loads_) return void(all_.insert(all_.end(), bytes.begin(), bytes.end()));
        std::copy_n(all_.begin() + static_cast<std::ptrdiff_t>(at_), bytes.size(), bytes.begin());
        at_ += bytes.size();
    }
    uint64_t left() const override { return all_.size() - at_; }
    std::string_view where() const override { return "memory"; }

  private:
    std::vector<std::byte> all_;
    size_t at_ = 0;
    bool loads_ = false;
};

}  // namespace trireme::test
