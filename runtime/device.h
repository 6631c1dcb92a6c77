#pragma once
/// Device: what a rank computes on, the CPU or a GPU. It is the interface through which a backend provides device
/// memory, host memory and streams. A rank opens one with open_device().

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/index.h"
#include "runtime/registry.h"
#include "runtime/stream.h"
#include "runtime/tensor.h"

namespace trireme {

class Device {
  public:
    virtual ~Device() = default;

    /// Returns "cpu" or the registered name of the backend whose kernels work on this device's memory.
    virtual std::string_view backend() const = 0;
    /// Returns the device and its model: "cuda:0: NVIDIA H200".
    virtual std::string name() const = 0;
    /// Returns the size of the device's memory in bytes; ranks may share it.
    virtual size_t memory_total() const = 0;
    /// Returns the bytes of device memory that allocate() still grants to this rank; ranks that share the device have a
    /// share each.
    virtual size_t memory_free() const = 0;
    /// Like memory_free(), for host memory. The CPU has one memory for both.
    virtual size_t host_memory_free() const { return memory_free(); }
    /// Identifies the device on this node; ranks with equal strings share it. "" means the node's own memory.
    virtual std::string place() const { return ""; }
    /// Sets the number of ranks on this GPU, by which memory_free() divides. Without the call it is estimated from the
    /// numbers of local ranks and GPUs. The CPU ignores it.
    virtual void shared_by(int) {}
    /// Returns whether host threads may access device memory while no stream works on it.
    virtual bool host_reaches_memory() const { return false; }

    /// Returns zeroed memory, aligned to 4 KiB (in a GPU's memory: 256 bytes). Blocks. Errors: Exit::kOs, with required
    /// and free bytes.
    virtual void* allocate(Space space, size_t bytes) = 0;
    /// Frees a result of allocate(space, bytes).
    virtual void release(Space space, void* data, size_t bytes) noexcept = 0;
    /// Bytes that this rank has allocated now (used) and the largest number so far (peak).
    size_t used(Space space) const { return used_[index(space)]; }
    size_t peak(Space space) const { return peak_[index(space)]; }

    /// `name` must outlive the stream; it appears in traces and messages.
    virtual std::unique_ptr<Stream> make_stream(const char* name) = 0;
    /// Returns whether decode steps should be replayed as graphs on this device.
    virtual bool graphs() const { return false; }

  protected:
    /// Adds `bytes` to used(); negative: a release.
    void account(Space space, ptrdiff_t bytes);

  private:
    size_t used_[2] = {0, 0}, peak_[2] = {0, 0};
};

/// Parameters of open_device().
struct DeviceRequest {
    int threads = 1;                      // compute threads of each CPU stream
    int local_rank = 0, local_ranks = 1;  // ranks of this node share its memory and its GPUs
    int index = -1;                       // the GPU; -1: selected by the local rank. The CPU ignores it
    // Bytes that the rank may pin even if the system reports less as available; 0: what is available. A virtual machine
    // may start with little memory and grow. The CPU ignores it.
    size_t host_memory = 0;
};

/// Opens a device that is not built in: a GPU. Makers are registered by their name in --device, by a module or a test.
using DeviceMaker = std::unique_ptr<Device> (*)(const DeviceRequest& request);
Registry<DeviceMaker>& device_makers();
/// Lists the devices of a backend, a line each: "cuda:0: NVIDIA H200, compute 9.0, 150.1 GB of memory, 149.6 free". A
/// last line has versions of its libraries.
using DeviceLister = std::vector<std::string> (*)();
Registry<DeviceLister>& device_listers();

/// Opens "cpu" or a registered device; ":i" after its name selects one of several, and overrides request.index. Every
/// rank calls this before any rank allocates, because a device divides the memory that was free when it was opened.
/// Errors: Exit::kUnavailable, kConfig.
std::unique_ptr<Device> open_device(const std::string& name, const DeviceRequest& request = {});

}  // namespace trireme
