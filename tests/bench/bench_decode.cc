// Decode compared with memory bandwidth: tokens/s, (weights + KV bytes)/s, the DRAM read rate measured between steps,
// and the cost of verifying 8 rows in one forward.
//   [mpirun -n R] bench_decode MODEL[:WEIGHTS[:KV]] [threads] [contexts...]     types: f16, bf16, f32

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "dist/make_comm.h"
#include "model/level.h"
#include "tests/bench/dram.h"
#include "tests/bench/timing.h"

namespace trireme::bench {
namespace {

double forward_seconds(Level& model, const std::vector<Row>& rows) {
    const auto begin = std::chrono::steady_clock::now();
    model.forward(rows);
    model.logits().host();
    return seconds_since(begin);
}

int run(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr,
                     "usage: [mpirun -n R] bench_decode MODEL[:f16|bf16[:f16|bf16]] [threads = 2] [contexts]\n");
        return 64;
    }
    const int threads = argc > 2 ? std::atoi(argv[2]) : 2;
    std::vector<int64_t> contexts;
    for (int i = 3; i < argc; ++i) contexts.push_back(std::atoll(argv[i]));
    if (contexts.empty()) contexts = {64, 4096, 8000};

    const auto comm = make_comm();
    const auto device = open_device("cpu", {.threads = threads});
    const std::string name = argv[1], file = name.substr(0, name.find(':'));
    const std::string types = name.size() > file.size() ? name.substr(file.size() + 1) : "";
    const auto type_at = [&](size_t begin, DType otherwise) {
        const std::string wanted = begin < types.size() ? types.substr(begin, types.find(':', begin) - begin) : "";
        for (const DType t : {DType::kF32, DType::kF16, DType::kBF16}) {
            if (name_of(t) == wanted) return t;
        }
        return otherwise;
    };
    const auto source = open_model(file);
    const DType type = type_at(0, source->natural_dtype());
    const size_t colon = types.find(':');
    const DType kv = type_at(colon == std::string::npos ? types.size() : colon + 1, DType::kF16);
    const Weights weights(*device, *source, make_shard(source->config(), comm->rank(), comm->size()), type);
    Level model(*device, *comm, weights, {.k_type = kv, .v_type = kv, .context = contexts.back() + kMaxRows});
    DramReader dram;

    if (comm->rank() == 0) {
        std::printf("%s, weights %s, KV %s, %d rank(s) x %d thread(s)\n",
                    std::filesystem::path(file).filename().c_str(), std::string(name_of(weights.dtype())).c_str(),
                    std::string(name_of(kv)).c_str(), comm->size(), threads);
        std::printf(
            "| context | tok/s | read GB/s | DRAM GB/s | ratio | 8 rows / 1 row |\n|---|---|---|---|---|---|\n");
    }
    for (const int64_t context : contexts) {
        const std::vector<int32_t> ids = any_prompt(context - model.length(), model.config().vocab);
        model.prefill(0, ids);
        std::vector<Row> rows;
        for (int32_t r = 0; r < 8; ++r) {
            rows.push_back({.token = 11 + r, .position = static_cast<int32_t>(context) + r, .parent = r - 1});
        }
        const std::vector<Row> one = {rows[0]};
        forward_seconds(model, one);
        forward_seconds(model, rows);

        std::vector<double> step, eight, rate;
        for (int i = 0; i < 15; ++i) {
            // The engine's threads spin for a while after a step, and would take the readers' cores.
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            // Like a decode step, a pass ends when the last rank ends.
            comm->barrier();
            const auto begin = std::chrono::steady_clock::now();
            dram.pass(threads);
            comm->barrier();
            rate.push_back(static_cast<double>(dram.bytes()) * comm->size() / seconds_since(begin));
            for (int j = 0; j < 4; ++j) step.push_back(forward_seconds(model, one));
            eight.push_back(forward_seconds(model, rows));
        }
        // Ranks hold equal parts, except for a boundary head, so rank 0's bytes are multiplied.
        const double bytes = static_cast<double>(step_bytes(model, context)) * comm->size();
        const double gbs = bytes / median(step) * 1e-9, limit = median(rate) * 1e-9;
        if (comm->rank() == 0) {
            std::printf("| %ld | %.1f | %.1f | %.1f | %.2f | %.2f |\n", static_cast<long>(context), 1 / median(step),
                        gbs, limit, gbs / limit, median(eight) / median(step));
            std::fflush(stdout);
        }
    }
    return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
    return trireme::bench::run(argc, argv);
}
