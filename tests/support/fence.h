#pragma once
/// Memory that ends at the end of a page and is followed by an inaccessible one: an access past its end ends the
/// program.

#include <cstddef>
#include <new>
#include <sys/mman.h>
#include <vector>

namespace trireme::test {

constexpr size_t kFencePage = 4096, kFenceAlignment = 16;

/// The end is exact if `bytes` is a multiple of kFenceAlignment.
inline void* fenced_allocate(size_t bytes) {
    const size_t used = (bytes + kFencePage - 1) / kFencePage * kFencePage;
    void* pages = mmap(nullptr, used + kFencePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    char* end = static_cast<char*>(pages) + used;
    mprotect(end, kFencePage, PROT_NONE);
    return end - (bytes + kFenceAlignment - 1) / kFenceAlignment * kFenceAlignment;
}
inline void fenced_free(void* data, size_t bytes) noexcept {
    const size_t used = (bytes + kFencePage - 1) / kFencePage * kFencePage;
    const size_t rounded = (bytes + kFenceAlignment - 1) / kFenceAlignment * kFenceAlignment;
    munmap(static_cast<char*>(data) + rounded - used, used + kFencePage);
}

/// Vector whose elements end where the inaccessible page begins, if their bytes are a multiple of kFenceAlignment.
template <class T>
struct FencedAllocator {
    using value_type = T;
    T* allocate(size_t n) { return static_cast<T*>(fenced_allocate(n * sizeof(T))); }
    void deallocate(T* data, size_t n) noexcept { fenced_free(data, n * sizeof(T)); }
    bool operator==(const FencedAllocator&) const = default;
};
template <class T>
using FencedVector = std::vector<T, FencedAllocator<T>>;

}  // namespace trireme::test
