#include "runtime/cuda/device.h"

#include <algorithm>
#include <array>
#include <thread>

#include "runtime/cpu/memory.h"
#include "runtime/cpu/pages.h"
#include "runtime/cuda/call.h"
#include "runtime/cuda/launch_kernel.h"
#include "runtime/cuda/stream.h"
#include "runtime/env.h"
#include "runtime/log.h"
#include "runtime/module.h"

namespace trireme {

int count_cards() {
    int n = 0;  // a failing call does not change it
    cuda(cudaGetDeviceCount(&n), "cudaGetDeviceCount");
    return n;
}

namespace {

/// Initialises the GPU, makes it this thread's current one, and returns its properties.
CardFacts facts_of(int index) {
    cudaDeviceProp p{};
    cuda(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties");
    std::array<char, 32> bus{};
    cuda(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index), "cudaDeviceGetPCIBusId");
    cuda(cudaSetDevice(index), "cudaSetDevice");
    CardFacts f{.index = index, .name = p.name, .bus_id = bus.data(), .major = p.major, .minor = p.minor};
    cuda(cudaMemGetInfo(&f.memory_free, &f.memory_total), "cudaMemGetInfo");
    f.geforce = f.name.find("GeForce") != std::string::npos;
    return f;
}

int chosen(const DeviceRequest& r) {
    const int n = count_cards();
    require(n > 0, Exit::kUnavailable, "no GPU is visible: see nvidia-smi, or compute on the CPU");
    require(r.index < n, Exit::kUnavailable, "GPU {}: there are {} GPUs, numbered from 0", r.index, n);
    return r.index >= 0 ? r.index : r.local_rank % n;
}

int ranks_on(int index, const DeviceRequest& r) {
    if (r.index >= 0) return r.local_ranks;
    const int n = count_cards();
    return r.local_ranks / n + (index < r.local_ranks % n ? 1 : 0);
}

void check_dependent_launch(const CardFacts& f) {
    require(f.major >= 9, Exit::kConfig,
            "TRIREME_PDL=1: {} (cuda:{}) has compute capability {}.{}, programmatic dependent launch requires 9.0 or "
            "higher: unset the variable",
            f.name, f.index, f.major, f.minor);
    require(gpu::compiled_for_dependent_launch(), Exit::kConfig,
            "TRIREME_PDL=1: the kernels are compiled for GPUs before compute capability 9.0: add 90 to "
            "CMAKE_CUDA_ARCHITECTURES, or unset the variable");
    log::info("cuda:{}: programmatic dependent launch is on (TRIREME_PDL=1)", f.index);
}

}  // namespace

std::vector<std::string> list_cards() {
    std::vector<std::string> lines;
    for (int i = 0; i < count_cards(); ++i) {
        const CardFacts f = facts_of(i);
        lines.push_back(fmt::format("cuda:{}: {}, compute {}.{}, {:.1f} GB of memory, {:.1f} free", f.index, f.name,
                                    f.major, f.minor, static_cast<double>(f.memory_total) * 1e-9,
                                    static_cast<double>(f.memory_free) * 1e-9));
    }
    int driver = 0, runtime = 0;
    cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    std::string versions = fmt::format("      driver for CUDA {}.{}, runtime {}.{}", driver / 1000, driver % 1000 / 10,
                                       runtime / 1000, runtime % 1000 / 10);
    for (const FoundLibrary& library : cuda_libraries()) {
        versions += fmt::format(", {}", library.path.empty() ? library.name + " missing" : library.path);
    }
    lines.push_back(versions);
    return lines;
}

CudaDevice::CudaDevice(const DeviceRequest& request)
    : facts_(facts_of(chosen(request))),
      sharers_(ranks_on(facts_.index, request)),
      local_ranks_(request.local_ranks),
      free_at_start_(facts_.memory_free),
      host_at_start_(host_memory().available),
      host_granted_(request.host_memory) {
    require(facts_.major >= 8, Exit::kUnavailable,
            "cuda:{}: {} has compute capability {}.{}, the kernels require 8.0 or higher: use another GPU or the CPU",
            facts_.index, facts_.name, facts_.major, facts_.minor);
    if (env().dependent_launch) check_dependent_launch(facts_);
}

std::string CudaDevice::name() const {
    return fmt::format("cuda:{}: {}", facts_.index, facts_.name);
}

size_t CudaDevice::memory_free() const {
    size_t now = 0, total = 0;
    cuda(cudaMemGetInfo(&now, &total), "cudaMemGetInfo");
    return left_to_rank(free_at_start_, now, used(Space::kDevice), sharers_);
}

size_t CudaDevice::host_left(const HostMemory& now) const {
    const size_t pinned = used(Space::kHost);
    return std::max(left_to_rank(host_at_start_, now.available, pinned, local_ranks_),
                    host_granted_ - std::min(host_granted_, pinned));
}

size_t CudaDevice::host_memory_free() const {
    const HostMemory now = host_memory();
    return std::min(host_left(now), now.mappable);
}

// The pages are mapped and touched by several threads here; cudaHostAlloc touches them with one, on any NUMA node.
void* CudaDevice::pinned(size_t bytes) {
    HostMemory memory = host_memory();
    memory.available = host_left(memory);
    void* data = bytes > memory.available ? nullptr : map_pages(bytes);
    cudaError_t code = cudaErrorMemoryAllocation;
    if (data != nullptr) {
        const unsigned threads = std::thread::hardware_concurrency() / static_cast<unsigned>(local_ranks_);
        touch_pages(data, bytes, node_of_pci(facts_.bus_id), static_cast<int>(std::clamp(threads, 1u, 16u)));
        code = cudaHostRegister(data, page_bytes(bytes), cudaHostRegisterPortable | cudaHostRegisterMapped);
        if (code != cudaSuccess) {
            cudaGetLastError();
            unmap_pages(data, bytes);
        }
    }
    if (code == cudaSuccess) {
        // Kernels read pinned memory at its host address (CudaStream::do_upload).
        void* mapped = nullptr;
        cuda(cudaHostGetDevicePointer(&mapped, data, 0), "cudaHostGetDevicePointer");
        if (mapped != data) {
            cudaHostUnregister(data);
            unmap_pages(data, bytes);
            fail(Exit::kUnavailable,
                 "cuda:{}: {} sees pinned memory at other addresses than the host: use another GPU or the CPU",
                 facts_.index, facts_.name);
        }
        return data;
    }
    // The NVIDIA driver does not count pinned memory against ulimit -l: the limit only helps to explain a failure.
    const std::string obstacle = pinning_obstacle(bytes, memory);
    fail(Exit::kOs, "pinned host memory: {:.1f} MiB required ({}): {}", mib(bytes), cudaGetErrorString(code),
         obstacle.empty() ? "the driver refuses: see dmesg, or use a smaller context (-c)" : obstacle);
}

void* CudaDevice::on_card(size_t bytes) {
    const size_t available = memory_free();
    const std::string found = fmt::format("device memory (cuda:{}, {}): {:.1f} of {:.1f} MiB are available{}",
                                          facts_.index, facts_.name, mib(available), mib(facts_.memory_total),
                                          sharers_ > 1 ? fmt::format(" to each of {} ranks", sharers_) : "");
    require(bytes <= available, Exit::kOs, "{}, {:.1f} MiB are required: use a smaller context (-c) or more ranks",
            found, mib(bytes));
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, bytes);
    if (code == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        fail(
            Exit::kOs,
            "{}, but cudaMalloc of {:.1f} MiB failed: another process may have taken the memory (nvidia-smi), or it is "
            "fragmented",
            found, mib(bytes));
    }
    cuda(code, "cudaMalloc");
    return data;
}

void* CudaDevice::allocate(Space space, size_t bytes) {
    void* data = nullptr;
    cuda(cudaSetDevice(facts_.index), "cudaSetDevice");
    if (space == Space::kHost) {
        data = pinned(bytes);
    } else {
        data = on_card(bytes);
        cuda(cudaMemsetAsync(data, 0, bytes, cudaStreamPerThread), "cudaMemsetAsync");
        cuda(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
    }
    account(space, static_cast<ptrdiff_t>(bytes));
    return data;
}

void CudaDevice::release(Space space, void* data, size_t bytes) noexcept {
    if (cards_given_up()) return;
    if (space == Space::kHost) {
        cudaHostUnregister(data);
        unmap_pages(data, bytes);
    } else {
        cudaFree(data);
    }
    account(space, -static_cast<ptrdiff_t>(bytes));
}

std::unique_ptr<Stream> CudaDevice::make_stream(const char* name) {
    return std::make_unique<CudaStream>(name, facts_.index, env().dependent_launch);
}

CudaDevice& cuda(Device& device) {
    auto* d = dynamic_cast<CudaDevice*>(&device);
    check(d != nullptr, "device {} is not a CUDA GPU", device.name());
    return *d;
}

}  // namespace trireme
