// The machine's DRAM read rate in one line: the best of 15 passes over 512 MiB.   bench_dram [threads]

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/bench/dram.h"

int main(int argc, char** argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : static_cast<int>(std::thread::hardware_concurrency());
    if (threads < 1) {
        std::fprintf(stderr, "usage: bench_dram [threads = all]\n");
        return 64;
    }
    trireme::bench::DramReader dram;
    double best = 0;
    for (int i = 0; i < 15; ++i) best = std::max(best, dram.pass(threads));
    std::printf("DRAM reads %.1f GB/s on %d threads\n", best * 1e-9, threads);
}
