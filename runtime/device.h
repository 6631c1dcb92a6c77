#pragma once
/// A device: memory, pinned host memory, streams.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/registry.h"
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
    /// The same of the host, where that is other memory.
    virtual size_t host_memory_free() const { return memory_free(); }
    /// Where on this node it is: ranks with the same place share it. "": the node's own memory, which is shared anyway.
    virtual std::string place() const { return ""; }
    /// So many ranks have opened it: what memory_free() divides by. Until told, what local ranks and cards suggest.
    virtual void shared_by(int) {}
    /// The host's threads may read and write device memory while no stream works on it.
    virtual bool host_reaches_memory() const { return false; }

    /// Zeroed, 4 KiB aligned. Errors: Exit::kOs with the size asked for and what is free.
    virtual void* allocate(Space space, size_t bytes) = 0;
    virtual void release(Space space, void* data, size_t bytes) noexcept = 0;
    /// Bytes allocated now, and the most there ever were.
    size_t used(Space space) const { return used_[static_cast<size_t>(space)]; }
    size_t peak(Space space) const { return peak_[static_cast<size_t>(space)]; }

    /// `name` must outlive the stream; it appears in traces and messages.
    virtual std::unique_ptr<Stream> make_stream(const char* name) = 0;
    /// A decode step is worth a graph here.
    virtual bool graphs() const { return false; }

  protected:
    void account(Space space, ptrdiff_t bytes);

  private:
    size_t used_[2] = {0, 0}, peak_[2] = {0, 0};
};

/// What a rank asks for.
struct DeviceRequest {
    int threads = 1;                      // compute threads of every CPU stream
    int local_rank = 0, local_ranks = 1;  // ranks of this node divide its memory, and its cards
    int index = -1;                       // the card; -1: by the local rank
    // Bytes that the rank may pin even if the system reports less as available; 0: what is available. A virtual machine
    // may start with little memory and grow. A CPU ignores it.
    size_t host_memory = 0;
};

/// Devices that are not built in: a name for --device, and what opens one.
using DeviceMaker = std::unique_ptr<Device> (*)(const DeviceRequest& request);
Registry<DeviceMaker>& device_makers();
/// A line each of what --device may name: "cuda:0: NVIDIA H200, compute 9.0, 150.1 GB of memory, 149.6 free".
using DeviceLister = std::vector<std::string> (*)();
Registry<DeviceLister>& device_listers();

/// `name` is "cpu", or of a registered device, with ":i" behind it where it has several. Every rank calls this before
/// any of them allocates. Errors: Exit::kUnavailable, kConfig.
std::unique_ptr<Device> open_device(const std::string& name, const DeviceRequest& request = {});

}  // namespace trireme
