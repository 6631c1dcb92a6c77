// Overlap of copies and compute with streamed KV. A decode step is compared with the time of its copies over an
// emulated link, and with its compute time. Compute time is that of the same step with all KV on chip. Meanwhile the
// same bytes are copied at the same rate into an unused ring, so that both steps share the DRAM alike. Then prefills
// over a link without a rate limit are compared with prefills on chip, and the copied bytes are shown.
//   bench_overlap MODEL [threads = cores - 1] [context = 8000] [repetitions = 9]

#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "dist/self_comm.h"
#include "model/footprint.h"
#include "model/level.h"
#include "offload/plan/step_forecast.h"
#include "offload/stream/raw_bytes.h"
#include "runtime/trace.h"
#include "tests/bench/timing.h"

namespace trireme::bench {
namespace {

/// Copies a step's bytes at a link's rate into an unused ring, whenever a step begins.
class Traffic {
  public:
    Traffic(Device& device, size_t span, double gbps, double bytes_of_a_step)
        : stream_(device.make_stream("traffic")),
          from_(device, kSpans * span),
          to_(device, kSpans * span),
          spans_of_a_step_(std::llround(bytes_of_a_step / static_cast<double>(span))) {
        stream_->emulate_link(gbps, 0);
        thread_ = std::jthread([this, span](const std::stop_token& stop) { move(stop, span); });
    }
    Traffic(const Traffic&) = delete;
    Traffic& operator=(const Traffic&) = delete;

    /// Starts a step's copies. Remaining bytes of the last step are dropped.
    void begin_step() {
        const std::lock_guard lock(mutex_);
        left_ = spans_of_a_step_;
        begun_.notify_one();
    }

  private:
    void move(const std::stop_token& stop, size_t span) {
        Event before;
        for (size_t i = 0;; ++i) {
            {
                std::unique_lock lock(mutex_);
                if (!begun_.wait(lock, stop, [this] { return left_ > 0; })) break;
                --left_;
            }
            const size_t at = i % kSpans * span;
            stream_->copy(bytes_on_device(static_cast<char*>(to_.data()) + at, span),
                          bytes_on_host(static_cast<char*>(from_.data()) + at, span), "traffic");
            stream_->synchronize(before);
            before = stream_->record();
        }
        stream_->synchronize();
    }

    static constexpr size_t kSpans = 4;
    std::unique_ptr<Stream> stream_;
    Buffer<Space::kHost> from_;
    Buffer<Space::kDevice> to_;
    int64_t spans_of_a_step_, left_ = 0;
    std::mutex mutex_;
    std::condition_variable_any begun_;
    std::jthread thread_;  // the last member, because it uses the others
};

class Bench {
  public:
    Bench(const std::string& model, int threads, int64_t context)
        : source_(open_model(model)),
          device_(open_device("cpu", {.threads = threads})),
          weights_(*device_, *source_, make_shard(source_->config(), 0, 1), source_->natural_dtype()),
          context_(context) {}

    /// A level with a prompt of `prompt` tokens.
    std::unique_ptr<Level> load(int64_t on_chip, int64_t prompt) {
        LevelOptions options{.context = context_ + kMaxRows};
        const int64_t owners = kv_shape(weights_.config(), weights_.shard(), options).owner_layers;
        options.residency.on_chip = interleaved(owners, on_chip);
        auto model = std::make_unique<Level>(*device_, comm_, weights_, options);
        if (prompt > 0) prefill(*model, prompt);
        return model;
    }
    double prefill(Level& model, int64_t n) const {
        const std::vector<int32_t> ids = any_prompt(n, source_->config().vocab);
        model.truncate(0, 0);
        const auto begin = std::chrono::steady_clock::now();
        model.prefill(0, ids);
        return seconds_since(begin);
    }
    PlanInput plan(int64_t on_chip) const {
        return plan_input(weights_.config(), weights_.shard(), weights_.dtype(), {.context = context_ + kMaxRows},
                          "cpu", 1, on_chip);
    }
    int64_t layers() const { return source_->config().n_layers; }
    Device& device() { return *device_; }

    double step(Level& model) const {
        const std::vector<Row> row = {{.token = 11, .position = static_cast<int32_t>(context_)}};
        const auto begin = std::chrono::steady_clock::now();
        model.forward(row);
        model.logits().host();
        return seconds_since(begin);
    }

    /// Median seconds of three steps after a warm-up step; `traffic` is copied during each.
    double steps(Level& model, Traffic* traffic = nullptr) const {
        std::vector<double> seconds;
        for (int i = 0; i < 4; ++i) {
            if (traffic != nullptr) traffic->begin_step();
            const double took = step(model);
            if (i > 0) seconds.push_back(took);
        }
        return median(seconds);
    }

  private:
    SelfComm comm_;
    std::unique_ptr<WeightSource> source_;
    std::unique_ptr<Device> device_;
    Weights weights_;
    int64_t context_;
};

/// Prefills of `tokens` with none and half of the layers on chip, interleaved with prefills that have all on chip.
void prefills(Bench& bench, Level& on_chip_model, int64_t tokens) {
    std::printf(
        "\n| on chip | prompt | prefill s | all on chip s | ratio | D2H MiB | tiles MiB | H2D MiB | a layer MiB |\n");
    std::printf("|---|---|---|---|---|---|---|---|---|\n");
    const auto mib = [](size_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    for (const int64_t on_chip : {bench.layers() / 2, int64_t{0}}) {
        const std::unique_ptr<Level> streamed = bench.load(on_chip, 0);
        std::vector<double> with, without;
        size_t d2h = 0, h2d = 0;
        for (int i = 0; i < 3; ++i) {
            without.push_back(bench.prefill(on_chip_model, tokens));
            const LinkUse before = streamed->cache().transport()->use();
            with.push_back(bench.prefill(*streamed, tokens));
            const LinkUse use = streamed->cache().transport()->use() - before;
            d2h = use.d2h_bytes;
            h2d = use.h2d_bytes;
        }
        const auto& kv = static_cast<const FullCache&>(streamed->cache());
        const size_t layer = static_cast<size_t>(tokens / kTileTokens) * kv.shape().layout.tile_bytes();
        std::printf("| %ld | %ld | %.2f | %.2f | %.3f | %.1f | %.1f | %.1f | %.1f |\n", static_cast<long>(on_chip),
                    static_cast<long>(tokens), median(with), median(without), median(with) / median(without), mib(d2h),
                    mib(static_cast<size_t>(kv.streamed_layers()) * layer), mib(h2d), mib(layer));
        std::fflush(stdout);
    }
}

int run(int argc, char** argv) {
    if (argc < 2) {
        std::fprintf(stderr, "usage: bench_overlap MODEL [threads = cores - 1] [context = 8000] [repetitions = 9]\n");
        return 64;
    }
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    const int threads = argc > 2 ? std::atoi(argv[2]) : std::max(1, cores - 1);
    const int64_t context = argc > 3 ? std::atoll(argv[3]) : 8000;
    const int repetitions = argc > 4 ? std::atoi(argv[4]) : 9;

    Bench bench(argv[1], threads, context);
    const int64_t layers = bench.layers();
    const auto on_chip_model = bench.load(layers, context);
    struct Setting {
        double ratio;  // copy time over compute time
        int64_t on_chip;
    };
    const Setting settings[] = {{0.5, (layers * 22 + 15) / 30}, {1, layers / 2}, {2, 0}, {5, 0}};

    std::printf("%d compute thread(s), %ld tokens, link emulated; medians of %d turns, step / max of turns' ratios\n",
                threads, static_cast<long>(context), repetitions);
    std::printf(
        "| on chip | link GB/s | copy ms | compute ms | step ms | step / max | link busy | KV device MiB | plan ms "
        "|\n");
    std::printf("|---|---|---|---|---|---|---|---|---|\n");
    std::unique_ptr<Level> streamed;
    int64_t loaded = -1;
    int rows = 0, overlapped = 0, copy_bound = 0, busy_links = 0, foretold = 0;
    for (const Setting& s : settings) {
        if (s.on_chip != loaded) {
            streamed.reset();
            streamed = bench.load(s.on_chip, context);
            loaded = s.on_chip;
        }
        auto& kv = static_cast<FullCache&>(streamed->cache());
        const auto streamed_bytes = static_cast<double>(kv.streamed_layers() * TailTiles::first_tile(context)) *
                                    static_cast<double>(kv.shape().layout.tile_bytes());
        const size_t span = static_cast<size_t>(plan_with(bench.plan(s.on_chip), s.on_chip).span_tiles) *
                            kv.shape().layout.tile_bytes();
        double compute = bench.steps(*on_chip_model), gbps = 0;
        for (int round = 0; round < 3; ++round) {  // the copies slow compute, so the link's rate is set again
            gbps = streamed_bytes / (s.ratio * compute) * 1e-9;
            Traffic traffic(bench.device(), span, gbps, streamed_bytes);
            std::vector<double> rounds;
            for (int i = 0; i < 3; ++i) rounds.push_back(bench.steps(*on_chip_model, &traffic));
            compute = median(rounds);
        }
        // The plan's forecast is made before the step is measured.
        const double bytes = static_cast<double>(step_bytes(*on_chip_model, context));
        const PlanInput in = bench.plan(s.on_chip);
        const StepForecast f =
            forecast(in, plan_with(in, s.on_chip), {.device_gbps = bytes / compute * 1e-9, .link_gbps = gbps}, context);
        kv.transport()->emulate_link({.gbps = gbps, .us = 0});
        // Interleaved, with one ratio per repetition, because the machine's other load changes within seconds.
        const double copy = streamed_bytes / gbps * 1e-9;
        std::vector<double> computes, steps, ratios;
        for (int i = 0; i < repetitions; ++i) {
            {
                Traffic traffic(bench.device(), span, gbps, streamed_bytes);
                computes.push_back(bench.steps(*on_chip_model, &traffic));
            }
            steps.push_back(bench.steps(*streamed));
            ratios.push_back(steps.back() / std::max(copy, computes.back()));
        }
        const double step = median(steps);
        compute = median(computes);
        const double ratio = median(ratios), busy = copy / step, told = f.step_ms * 1e-3 / step;
        ++rows;
        overlapped += ratio <= 1.08;
        copy_bound += s.ratio > 1;
        busy_links += s.ratio > 1 && busy >= 0.95;
        foretold += std::abs(told - 1) <= 0.15;
        std::printf("| %ld | %.2f | %.2f | %.2f | %.2f | %.3f | %.2f | %.1f | %.2f |\n", static_cast<long>(s.on_chip),
                    gbps, copy * 1e3, compute * 1e3, step * 1e3, ratio, busy,
                    static_cast<double>(kv.facts().memory.device) / (1 << 20), f.step_ms);
        std::fflush(stdout);
    }
    std::printf(
        "step / max <= 1.08 in %d of %d rows; link busy >= 0.95 in %d of %d that copy longer than they compute; "
        "plan within 15 %% in %d of %d\n",
        overlapped, rows, busy_links, copy_bound, foretold, rows);
    streamed.reset();
    prefills(bench, *on_chip_model, context / 2);
    return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
    return trireme::bench::run(argc, argv);
}
