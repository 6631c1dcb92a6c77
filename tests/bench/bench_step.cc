// One decode step and one prefill of a model with random weights, beside the bytes they must read: a JSON line.
//   [mpirun -n R] bench_step SHAPE CONTEXT [DEVICE = cuda] [rows = 1] [graphs = 1] [steps = 30] [layers on chip = all]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "dist/make_comm.h"
#include "dist/rank_env.h"
#include "model/level.h"
#include "offload/plan.h"
#include "offload/stream/raw_bytes.h"
#include "runtime/module.h"
#include "runtime/trace.h"
#include "tests/bench/timing.h"
#include "tests/support/random_model.h"

namespace trireme::bench {
namespace {

int run(int argc, char** argv) {
    require(argc >= 3, Exit::kUsage,
            "usage: [mpirun -n R] bench_step SHAPE CONTEXT [DEVICE] [rows] [graphs] [steps] [layers on chip]");
    const std::string shape = argv[1], name = argc > 3 ? argv[3] : "cuda";
    const int64_t context = std::atoll(argv[2]);
    const auto n_rows = static_cast<int32_t>(argc > 4 ? std::atoi(argv[4]) : 1);
    const bool graphs = argc <= 5 || std::atoi(argv[5]) != 0;
    const int steps = argc > 6 ? std::atoi(argv[6]) : 30;
    require(context > kMaxRows && n_rows >= 1 && n_rows <= kMaxRows && steps >= 3, Exit::kConfig,
            "want a context beyond {}, 1 to {} rows, 3 steps or more", kMaxRows, kMaxRows);

    if (name.starts_with("cuda")) load_cuda_module();
    const RankEnv place =
        rank_env([](const char* variable) { return static_cast<const char*>(std::getenv(variable)); });
    const auto control = make_comm();
    const auto device =
        open_device(name, {.threads = 2, .local_rank = place.local_rank, .local_ranks = place.local_size});
    const auto device_comm = make_device_comm(*control, *device);
    Comm& comm = device_comm ? *device_comm : *control;
    const test::RandomModel source(test::known_shape(shape));
    const int64_t layers = source.config().n_layers, on_chip = argc > 7 ? std::atoll(argv[7]) : layers;
    require(on_chip >= 0 && on_chip <= layers, Exit::kConfig, "want 0 to {} layers on chip", layers);
    const Weights weights(*device, source, make_shard(source.config(), comm.rank(), comm.size()), DType::kF16);
    Level model(*device, comm, weights,
                {.context = context, .graphs = graphs, .residency = {.on_chip = interleaved(layers, on_chip)}});

    const std::vector<int32_t> ids = any_prompt(context - kMaxRows, model.config().vocab);
    const auto prefill_begin = std::chrono::steady_clock::now();
    model.prefill(0, ids);
    const double prefill = seconds_since(prefill_begin);

    std::vector<Row> rows;
    for (int32_t r = 0; r < n_rows; ++r) {
        rows.push_back({.token = 11 + r, .position = static_cast<int32_t>(model.length()) + r, .parent = r - 1});
    }
    const std::vector<double> uniforms(rows.size());
    std::vector<double> step, plain;
    size_t streamed_bytes = 0;
    for (int i = -3; i < steps; ++i) {  // the first load kernels and record the graph
        comm.barrier();
        const size_t before = trace::total("kv_h2d").bytes;
        const auto begin = std::chrono::steady_clock::now();
        model.forward(rows);
        model.sample({.temperature = 0}, uniforms);
        if (i < 0) continue;
        step.push_back(seconds_since(begin));
        streamed_bytes = trace::total("kv_h2d").bytes - before;
    }
    // The same whatever the residency and graphs: of one row, the last step's.
    const Matrix<const float> logits = model.logits().as<const float>();
    std::vector<float> dense;  // rows may have gaps between them
    for (int64_t r = 0; r < logits.rows; ++r) dense.insert(dense.end(), logits.row(r), logits.row(r) + logits.cols);
    const uint64_t digest = XXH3_64bits(dense.data(), dense.size() * sizeof(float));
    // The link alone: what streaming is measured against.
    if (on_chip < layers) {
        constexpr size_t kBytes = size_t{256} << 20;
        const auto stream = device->make_stream("plain");
        const Buffer<Space::kHost> from(*device, kBytes);
        const Buffer<Space::kDevice> to(*device, kBytes);
        for (int i = 0; i < 7; ++i) {
            comm.barrier();
            const auto begin = std::chrono::steady_clock::now();
            stream->copy(bytes_on_device(static_cast<char*>(to.data()), kBytes), bytes_on_host(from.data(), kBytes));
            stream->synchronize();
            plain.push_back(static_cast<double>(kBytes) / seconds_since(begin) * 1e-9);
        }
    }
    const double typical = median(step);
    const double bytes = static_cast<double>(weights.bytes_per_step() + model.read_bytes(model.length() + n_rows));
    if (comm.rank() == 0) {
        fmt::print(
            R"({{"bench":"step","shape":"{}","device":"{}","ranks":{},"comm":"{}","context":{},"rows":{},"graphs":{},)"
            R"("prefill_s":{:.3f},"prefill_tok_s":{:.0f},"step_ms":{:.4f},"best_step_ms":{:.4f},"rank_bytes":{:.0f},)"
            R"("rank_gbps":{:.1f},"device_peak_bytes":{},"on_chip_layers":{},"h2d_bytes":{},"h2d_gbps":{:.2f},)"
            R"("plain_h2d_gbps":{:.2f},"logits_xxh3":"{:016x}"}})"
            "\n",
            shape, device->name(), comm.size(), comm.name(), context, n_rows, graphs, prefill,
            static_cast<double>(ids.size()) / prefill, typical * 1e3, *std::min_element(step.begin(), step.end()) * 1e3,
            bytes, bytes / typical * 1e-9, device->peak(Space::kDevice), on_chip, streamed_bytes,
            static_cast<double>(streamed_bytes) / typical * 1e-9, plain.empty() ? 0 : median(plain), digest);
    }
    return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
    try {
        return trireme::bench::run(argc, argv);
    } catch (const trireme::Error& e) {
        std::fprintf(stderr, "bench_step: %s\n", e.what());
        return static_cast<int>(e.code());
    }
}
