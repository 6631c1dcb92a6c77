/// Time of an all_reduce by length (each layer has two), compared with MPI's own, which adds in an order of its choice.
///   mpirun -n 2 bench_comm
#include <algorithm>
#include <cstdio>
#include <vector>

#include <mpi.h>

#include "dist/make_comm.h"
#include "runtime/cpu/stream.h"
#include "runtime/trace.h"

namespace trireme {
namespace {

constexpr int64_t kMostFloats = 1 << 20;

/// Microseconds per call on the stream's thread, for `calls` consecutive calls.
double ours_us(Comm& comm, Stream& stream, const Tensor& x, int calls) {
    comm.barrier();
    const trace::Total before = trace::total("all_reduce");
    for (int c = 0; c < calls; ++c) comm.all_reduce(stream, x);
    stream.synchronize();
    return static_cast<double>(trace::total("all_reduce").ns - before.ns) * 1e-3 / calls;
}

double mpi_us(Comm& comm, const Tensor& x, int calls) {
    comm.barrier();
    const int n = static_cast<int>(x.dim(0));
    const uint64_t begin = trace::now();
    for (int c = 0; c < calls; ++c) MPI_Allreduce(MPI_IN_PLACE, x.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return static_cast<double>(trace::now() - begin) * 1e-3 / calls;
}

void run() {
    const auto comm = make_comm();
    const bool mpi = comm->size() > 1;
    CpuStream stream("collectives", 1);
    std::vector<float> data(kMostFloats);

    // Bus bandwidth: each rank sends and receives at least 2 (W - 1) / W of the bytes; divided by the time.
    const double wire = 2.0 * (comm->size() - 1) / comm->size();
    if (comm->rank() == 0) {
        std::printf("all_reduce, %d ranks (%s), best of 41 batches\n%10s %10s %10s %14s %6s\n", comm->size(),
                    comm->name(), "bytes", "us", "bus GB/s", "MPI's own us", "ratio");
    }
    for (int64_t n = 2; n <= kMostFloats; n *= 2) {
        const Tensor x(data.data(), DType::kF32, Shape{n});
        const int calls = static_cast<int>(std::clamp<int64_t>(1000000 / n, 10, 400));
        double us = 1e30, own = 1e30;
        for (int repeat = 0; repeat < 41; ++repeat) {  // interleaved: other processes disturb both alike
            us = std::min(us, ours_us(*comm, stream, x, calls));
            own = std::min(own, mpi ? mpi_us(*comm, x, calls) : 0);
        }
        if (comm->rank() == 0) {
            std::printf("%10zu %10.2f %10.2f %14.2f %6.2f\n", x.bytes(), us,
                        wire * static_cast<double>(x.bytes()) / us * 1e-3, own, us / own);
        }
    }
}

}  // namespace
}  // namespace trireme

int main() {
    try {
        trireme::run();
    } catch (const trireme::Error& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return static_cast<int>(e.code());
    }
    return 0;
}
