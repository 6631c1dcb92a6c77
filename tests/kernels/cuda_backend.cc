// Backend: the kernels on a GPU. Operands are in pinned host memory, which a GPU reads at the host's addresses.

#include <memory_resource>

#include "runtime/module.h"
#include "tests/kernels/harness.h"

namespace trireme::test {
namespace {

Device& card() {
    static const std::unique_ptr<Device> device = [] {
        load_cuda_module();
        return open_device("cuda");
    }();
    return *device;
}

/// Pinning takes a tenth of a millisecond: whole blocks are pinned, and operands are parts of them.
class Pinned final : public std::pmr::memory_resource {
    void* do_allocate(size_t bytes, size_t) override { return card().allocate(Space::kHost, bytes); }
    void do_deallocate(void* data, size_t bytes, size_t) override { card().release(Space::kHost, data, bytes); }
    bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }
};

std::pmr::memory_resource& pool() {
    card();  // constructed before the pool, so destroyed after it
    static Pinned pinned;
    static std::pmr::unsynchronized_pool_resource pool(
        {.max_blocks_per_chunk = 64, .largest_required_pool_block = 1 << 20}, &pinned);
    return pool;
}

}  // namespace

std::string_view backend_name() {
    return "cuda";
}

std::unique_ptr<Device> backend_device(int threads) {
    card();
    return open_device("cuda", {.threads = threads});
}

void* backend_allocate(size_t bytes) {
    return pool().allocate(bytes, 256);
}

void backend_free(void* data, size_t bytes) noexcept {
    pool().deallocate(data, bytes, 256);
}

bool emulated() {
    return false;
}

// A planted defect for tests/gpu_software.py: the host must not read device memory, and the software GPU must report
// it.
TEST(Planted, DISABLED_HostReadOfDeviceMemory) {
    const std::unique_ptr<Device> device = backend_device(1);
    void* data = device->allocate(Space::kDevice, 64);
    EXPECT_EQ(*static_cast<volatile char*>(data), 0);  // ends the process
}

}  // namespace trireme::test
