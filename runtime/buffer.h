#pragma once
/// Owners of memory: Buffer has one allocation, GrowingBuffer scratch of unknown size, Arena memory for many tensors.
/// An owner must outlive the asynchronous work on its memory, and its device must outlive the owner.

#include <cstddef>
#include <vector>

#include "runtime/device.h"
#include "runtime/tensor.h"

namespace trireme {

/// One allocation of a device, zeroed (Device::allocate) and freed with the owner. data() is null if there are 0 bytes.
template <Space S>
class Buffer {
  public:
    Buffer() = default;
    Buffer(Device& device, size_t bytes)
        : device_(&device), data_(bytes ? device.allocate(S, bytes) : nullptr), bytes_(bytes) {}
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Buffer() {
        if (data_) device_->release(S, data_, bytes_);
    }

    void* data() const { return data_; }
    size_t bytes() const { return bytes_; }
    /// Returns a tensor at the buffer's first byte.
    BasicTensor<S> tensor(DType dtype, const Shape& shape) const {
        const BasicTensor<S> t(data_, dtype, shape);
        check(t.bytes() <= bytes_, "buffer of {} bytes: a tensor {} of {} does not fit", bytes_, shape, name_of(dtype));
        return t;
    }

  private:
    void swap(Buffer& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
    }

    Device* device_ = nullptr;
    void* data_ = nullptr;
    size_t bytes_ = 0;
};

/// Scratch memory whose largest size is not known in advance, such as the messages of NcclComm and StagedComm. Every
/// allocation lives as long as the object, because graphs hold its address.
template <Space S>
class GrowingBuffer {
  public:
    explicit GrowingBuffer(Device& device) : device_(&device) {}

    /// Returns the newest allocation if it has `bytes`, otherwise a new one, without the old contents.
    void* at_least(size_t bytes) {
        if (all_.empty() || all_.back().bytes() < bytes) all_.emplace_back(*device_, bytes);
        return all_.back().data();
    }

  private:
    Device* device_;
    std::vector<Buffer<S>> all_;
};

/// One buffer from which take() returns tensors, one after the other; all are freed with the arena.
/// Add up the sizes first: `Arena(device, bytes_of(a) + bytes_of(b))`.
template <Space S>
class Arena {
  public:
    static constexpr size_t kAlign = 256;

    /// Returns the bytes that take() uses for such a tensor: a multiple of kAlign.
    static size_t bytes_of(DType dtype, const Shape& shape) {
        const size_t raw = static_cast<size_t>(shape.elements()) * size_of(dtype);
        return (raw + kAlign - 1) / kAlign * kAlign;
    }

    Arena() = default;
    Arena(Device& device, size_t bytes) : buffer_(device, bytes) {}

    /// Returns the next unused memory as a tensor, aligned to kAlign. The arena must have room for it.
    BasicTensor<S> take(DType dtype, const Shape& shape) {
        const size_t bytes = bytes_of(dtype, shape);
        check(used_ + bytes <= buffer_.bytes(), "arena of {} bytes: {} used, {} more required for {}", buffer_.bytes(),
              used_, bytes, shape);
        void* at = static_cast<char*>(buffer_.data()) + used_;
        used_ += bytes;
        return BasicTensor<S>(at, dtype, shape);
    }
    size_t used() const { return used_; }
    size_t bytes() const { return buffer_.bytes(); }

  private:
    Buffer<S> buffer_;
    size_t used_ = 0;
};

}  // namespace trireme
