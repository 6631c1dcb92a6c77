// A prefill and decode steps of a model with random weights, and the bytes that they must read: one JSON line per case.
// One process runs several cases, because a 7B model takes long to load.
//   [mpirun -n R] bench_step SHAPE [--device NAME = cuda] CASE...
//   CASE: CONTEXT[:rows=1][:graphs=1][:steps=30][:on_chip=all layers]     cases that differ in rows share a prefill

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <xxhash.h>

#include "dist/make_comm.h"
#include "dist/rank_env.h"
#include "model/level.h"
#include "offload/plan/plan.h"
#include "offload/stream/raw_bytes.h"
#include "runtime/env.h"
#include "runtime/module.h"
#include "runtime/trace.h"
#include "tests/bench/timing.h"
#include "tests/support/random_model.h"

namespace trireme::bench {
namespace {

struct Case {
    int64_t context = 0, rows = 1, graphs = 1, steps = 30, on_chip = 0;
    bool same_level(const Case& c) const { return context == c.context && graphs == c.graphs && on_chip == c.on_chip; }
};

Case parsed(const std::string& text, int64_t layers) {
    Case c{.on_chip = layers};
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ':');) {
        const size_t equals = part.find('=');
        const std::string key = equals == std::string::npos ? "context" : part.substr(0, equals);
        int64_t* value = key == "context"   ? &c.context
                         : key == "rows"    ? &c.rows
                         : key == "graphs"  ? &c.graphs
                         : key == "steps"   ? &c.steps
                         : key == "on_chip" ? &c.on_chip
                                            : nullptr;
        require(value != nullptr, Exit::kUsage, "{}: unknown key '{}'; expected rows, graphs, steps or on_chip", text,
                key);
        *value = std::atoll(part.c_str() + (equals == std::string::npos ? 0 : equals + 1));
    }
    require(c.context > kMaxRows && c.rows >= 1 && c.rows <= kMaxRows && c.steps >= 3 && c.on_chip >= 0 &&
                c.on_chip <= layers,
            Exit::kConfig, "{}: expected a context beyond {}, 1 to {} rows, 3 or more steps, 0 to {} layers on chip",
            text, kMaxRows, kMaxRows, layers);
    return c;
}

/// The device and the ranks, the weights, and the level of the last case.
class Bench {
  public:
    Bench(const std::string& shape, const std::string& name)
        : place_(rank_env([](const char* variable) { return static_cast<const char*>(std::getenv(variable)); })),
          control_(make_comm()),
          device_(open_device(name, {.threads = 2, .local_rank = place_.local_rank, .local_ranks = place_.local_size})),
          device_comm_(make_device_comm(*control_, *device_)),
          comm_(device_comm_ ? *device_comm_ : *control_),
          source_(test::known_shape(shape)),
          weights_(*device_, source_, make_shard(source_.config(), comm_.rank(), comm_.size()), DType::kF16) {}

    int64_t layers() const { return source_.config().n_layers; }
    void run(const Case& c);

  private:
    void prefill(const Case& c);
    double plain_copy_gbps();

    RankEnv place_;
    std::unique_ptr<Comm> control_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Comm> device_comm_;
    Comm& comm_;
    test::RandomModel source_;
    Weights weights_;
    std::unique_ptr<Level> level_;
    Case made_for_;
    double prefill_s_ = 0, plain_gbps_ = 0;
};

void Bench::prefill(const Case& c) {
    if (level_ && made_for_.same_level(c)) return;
    level_.reset();
    level_ = std::make_unique<Level>(
        *device_, comm_, weights_,
        LevelOptions{
            .context = c.context, .graphs = c.graphs != 0, .residency = {.on_chip = interleaved(layers(), c.on_chip)}});
    made_for_ = c;
    const std::vector<int32_t> ids = any_prompt(c.context - kMaxRows, source_.config().vocab);
    const auto begin = std::chrono::steady_clock::now();
    level_->prefill(0, ids);
    prefill_s_ = seconds_since(begin);
}

/// Rate of copies over the link without compute, for comparison with streaming.
double Bench::plain_copy_gbps() {
    if (plain_gbps_ > 0) return plain_gbps_;
    constexpr size_t kBytes = size_t{256} << 20;
    const auto stream = device_->make_stream("plain");
    const Buffer<Space::kHost> from(*device_, kBytes);
    const Buffer<Space::kDevice> to(*device_, kBytes);
    std::vector<double> rates;
    for (int i = 0; i < 7; ++i) {
        comm_.barrier();
        const auto begin = std::chrono::steady_clock::now();
        stream->copy(bytes_on_device(static_cast<char*>(to.data()), kBytes), bytes_on_host(from.data(), kBytes));
        stream->synchronize();
        rates.push_back(static_cast<double>(kBytes) / seconds_since(begin) * 1e-9);
    }
    return plain_gbps_ = median(rates);
}

void Bench::run(const Case& c) {
    prefill(c);
    Level& model = *level_;
    std::vector<Row> rows;
    for (int32_t r = 0; r < c.rows; ++r) {
        rows.push_back({.token = 11 + r, .position = static_cast<int32_t>(model.length()) + r, .parent = r - 1});
    }
    const std::vector<double> uniforms(rows.size());
    std::vector<double> step;
    size_t streamed_bytes = 0;
    for (int64_t i = -3; i < c.steps; ++i) {  // the first steps load kernels and record the graph
        comm_.barrier();
        const size_t before = trace::total("kv_h2d").bytes;
        const auto begin = std::chrono::steady_clock::now();
        model.forward(rows);
        model.logits().sample({.temperature = 0}, uniforms);
        if (i < 0) continue;
        step.push_back(seconds_since(begin));
        streamed_bytes = trace::total("kv_h2d").bytes - before;
    }
    // The digest is equal for every placement, with and without graphs.
    const Matrix<const float> logits = model.logits().host().as<const float>();
    std::vector<float> dense;  // rows may have gaps between them
    for (int64_t r = 0; r < logits.rows; ++r) dense.insert(dense.end(), logits.row(r), logits.row(r) + logits.cols);
    const uint64_t digest = XXH3_64bits(dense.data(), dense.size() * sizeof(float));
    model.cache().drop();
    const double plain = c.on_chip < layers() ? plain_copy_gbps() : 0, typical = median(step);
    const double bytes = static_cast<double>(step_bytes(model, model.length() + c.rows));
    if (comm_.rank() != 0) return;
    fmt::print(
        R"({{"bench":"step","shape":"{}","device":"{}","ranks":{},"comm":"{}","context":{},"rows":{},"graphs":{},)"
        R"("dependent_launch":{},"prefill_s":{:.3f},"prefill_tok_s":{:.0f},"step_ms":{:.4f},"best_step_ms":{:.4f},"rank_bytes":{:.0f},)"
        R"("rank_gbps":{:.1f},"device_peak_bytes":{},"on_chip_layers":{},"h2d_bytes":{},"h2d_gbps":{:.2f},)"
        R"("plain_h2d_gbps":{:.2f},"logits_xxh3":"{:016x}"}})"
        "\n",
        source_.config().name, device_->name(), comm_.size(), comm_.name(), c.context, c.rows, c.graphs != 0,
        env().dependent_launch, prefill_s_, static_cast<double>(c.context - kMaxRows) / prefill_s_, typical * 1e3,
        *std::min_element(step.begin(), step.end()) * 1e3, bytes, bytes / typical * 1e-9, device_->peak(Space::kDevice),
        c.on_chip, streamed_bytes, static_cast<double>(streamed_bytes) / typical * 1e-9, plain, digest);
    std::fflush(stdout);
}

int run(int argc, char** argv) {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const bool named = words.size() > 2 && words[1] == "--device";
    const size_t first = named ? 3 : 1;
    require(words.size() > first, Exit::kUsage, "usage: [mpirun -n R] bench_step SHAPE [--device NAME] CASE...");
    const std::string device = named ? words[2] : "cuda";
    if (device.starts_with("cuda")) load_cuda_module();
    Bench bench(words[0], device);
    std::vector<Case> cases;
    for (size_t i = first; i < words.size(); ++i) cases.push_back(parsed(words[i], bench.layers()));
    for (const Case& c : cases) bench.run(c);
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
