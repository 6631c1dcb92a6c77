#pragma once
/// A device: memory, pinned host memory, streams.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/stream.h"
#include "runtime/tensor.h"

namespace trireme {

class Device {
  public:
    virtual ~Device() = default;

    /// "cpu", or the name the device was registered under: whose kernels work on its memory.
    virtual std::string_view backend() const = 0;
    virtual std::string name() const = 0;
    virtual size_t memory_total() const = 0;
    /// What allocate() still grants: ranks of one node have a share each.
    virtual size_t memory_free() const = 0;

    /// Zeroed, 4 KiB aligned. Errors: Exit::kOs with the size asked for and what is free.
    virtual void* allocate(Space space, size_t bytes) = 0;
    virtual void release(Space space, void* data, size_t bytes) noexcept = 0;
    /// Bytes allocated now, and the most there ever were.
    size_t used(Space space) const { return used_[static_cast<size_t>(space)]; }
    size_t peak(Space space) const { return peak_[static_cast<size_t>(space)]; }

    /// `name` must outlive the stream; it appears in traces and messages.
    virtual std::unique_ptr<Stream> make_stream(const char* name) = 0;

  protected:
    void account(Space space, ptrdiff_t bytes);

  private:
    size_t used_[2] = {0, 0}, peak_[2] = {0, 0};
};

/// Devices that are not built in come from modules: a name for --device, and what opens one.
using DeviceMaker = std::unique_ptr<Device> (*)(int threads, int local_ranks);
void register_device(std::string_view backend, DeviceMaker maker);

/// What --device names: "cpu", or what has been registered. `threads` compute threads of every CPU stream;
/// `local_ranks` ranks of this node divide its memory, each calling this before any of them allocates. Errors:
/// Exit::kUnavailable.
std::unique_ptr<Device> open_device(const std::string& name, int threads, int local_ranks = 1);

}  // namespace trireme
