#include "tests/bench/dram.h"

#include <array>
#include <chrono>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace trireme::bench {

DramReader::DramReader(size_t bytes) : bytes_(bytes) {
    void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::runtime_error("no memory for the DRAM measurement");
    ::madvise(p, bytes, MADV_HUGEPAGE);
    data_ = static_cast<float*>(p);
    for (size_t i = 0; i < bytes / sizeof(float); ++i) data_[i] = 1;
}

DramReader::~DramReader() {
    ::munmap(data_, bytes_);
}

double DramReader::pass(int threads) {
    const size_t n = bytes_ / sizeof(float);
    std::vector<float> sums(static_cast<size_t>(threads));
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> readers;
    for (int t = 0; t < threads; ++t) {
        readers.emplace_back([this, n, threads, t, &sums] {
            const size_t part = n / static_cast<size_t>(threads) / 64 * 64;
            const float* at = data_ + static_cast<size_t>(t) * part;
            // 64 independent sums: the compiler vectorises them, and the latency of an addition is no limit.
            std::array<float, 64> sum{};
            for (size_t i = 0; i < part; i += 64) {
                for (size_t j = 0; j < 64; ++j) sum[j] += at[i + j];
            }
            for (const float s : sum) sums[static_cast<size_t>(t)] += s;
        });
    }
    for (std::thread& r : readers) r.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (const float s : sums) {
        if (s <= 0) throw std::runtime_error("DRAM measurement was optimised away");
    }
    return static_cast<double>(n / static_cast<size_t>(threads) / 64 * 64 * static_cast<size_t>(threads)) *
           sizeof(float) / seconds;
}

}  // namespace trireme::bench
