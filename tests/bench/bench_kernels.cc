/// Table of the kernels at the demo model's shapes: time, GB/s and GF/s, with the machine's own limits.
/// With one thread, CPU time is measured, so other processes disturb less.
/// bench_kernels [threads] [rounds] [name filter] [avx2]: `avx2` disables instruction sets beyond AVX2.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <hwy/targets.h>

#include "kernels/kernels.h"
#include "runtime/buffer.h"
#include "runtime/cpu/device.h"
#include "runtime/cpu/stream.h"
#include "tests/bench/dram.h"
#include "tests/bench/fma_peak.h"
#include "tests/bench/timing.h"

namespace trireme::bench {
namespace {

constexpr size_t kPool = size_t{256} << 20;  // weights and tiles are taken from here in order, so none is in a cache

uint64_t now(clockid_t clock) {
    timespec t{};
    clock_gettime(clock, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

struct Case {
    std::string name;
    double bytes, flops;
    std::function<void()> enqueue;
    std::vector<double> seconds;
};

/// Owns the operands. Operands other than weights and tiles are small, and have fixed addresses.
class Bench {
  public:
    Bench(int threads, Phase phase)
        : phase_(phase),
          device_(threads),
          stream_(device_.make_stream("bench")),
          kernels_(make_kernels(device_, *stream_, phase,
                                {.max_rows = phase == Phase::kDecode ? kMaxRows : kPrefillRows,
                                 .max_k = 4096,
                                 .max_n = 49152,
                                 .heads = 32,
                                 .head_dim = 128,
                                 .vocab = 49152})),
          arena_(device_, size_t{512} << 20),
          pool_(device_, kPool) {
        auto* halves = static_cast<uint16_t*>(pool_.data());
        for (size_t i = 0; i < kPool / 2; ++i)
            halves[i] = static_cast<uint16_t>(0x3000 + i * 7919 % 1024);  // 0.1 .. 0.2
    }

    Tensor floats(const Shape& shape) {
        const Tensor t = arena_.take(DType::kF32, shape);
        auto* at = static_cast<float*>(t.data());
        for (int64_t i = 0; i < shape.elements(); ++i) at[i] = static_cast<float>(i * 37 % 101 - 50) / 50;
        return t;
    }
    /// The next weights of the pool.
    Tensor weights(DType type, const Shape& shape) {
        const size_t bytes = static_cast<size_t>(shape.elements()) * size_of(type);
        if (at_ + bytes > kPool) at_ = 0;
        char* data = static_cast<char*>(pool_.data()) + at_;
        at_ += (bytes + 4095) / 4096 * 4096;
        return Tensor(data, type, shape);
    }

    Case matmul(DType type, int64_t rows, int64_t n, int64_t k) {
        const Tensor x = floats(Shape{rows, k}), out = floats(Shape{rows, n});
        return {fmt::format("{} {} [{},{}] rows {}", phase_ == Phase::kDecode ? "matmul" : "matmul_prefill",
                            name_of(type), n, k, rows),
                static_cast<double>(n * k) * static_cast<double>(size_of(type)),
                2.0 * static_cast<double>(rows * n * k),
                [=, this] {
                    kernels_->matmul(out, x, weights(type, Shape{n, k}));
                },
                {}};
    }

    /// The last `rows` of `context` positions: a chain of staged rows, or a prefill batch.
    Case attention(DType type, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t context, int64_t rows) {
        LayerKv kv;
        kv.layout = {kv_heads, head_dim, type, type};
        kv.tiles = arena_.take(DType::kI64, Shape{1, context / kTileTokens + 1});
        kv.staged_k = arena_.take(stored_type(type), kv.layout.staged_shape(type));
        kv.staged_v = arena_.take(stored_type(type), kv.layout.staged_shape(type));
        RowsView cache;
        cache.slots = arena_.take(DType::kI32, Shape{rows});
        cache.sequences = arena_.take(DType::kI32, Shape{rows});
        cache.cached = arena_.take(DType::kI32, Shape{rows});
        cache.ancestors = arena_.take(DType::kI32, Shape{rows, kMaxRows});
        cache.max_slots = context;
        const Tensor kv_of_head = arena_.take(DType::kI32, Shape{heads});
        for (int64_t h = 0; h < heads; ++h)
            static_cast<int32_t*>(kv_of_head.data())[h] = static_cast<int32_t>(h * kv_heads / heads);
        for (int64_t r = 0; r < rows; ++r) {
            static_cast<int32_t*>(cache.slots.data())[r] = static_cast<int32_t>(context - rows + r);
            static_cast<int32_t*>(cache.cached.data())[r] = static_cast<int32_t>(context - rows);
            for (int64_t i = 0; i < kMaxRows; ++i) cache.ancestors.as<int32_t>()(r, i) = static_cast<int32_t>(i);
        }
        const Tensor q = floats(Shape{rows, heads * head_dim}), out = floats(Shape{rows, heads * head_dim});
        const double pairs =
            static_cast<double>(rows) * (static_cast<double>(context) - static_cast<double>(rows - 1) / 2);
        return {fmt::format("{} {} {}/{} heads of {} context {} rows {}",
                            phase_ == Phase::kDecode ? "attention" : "attention_prefill", name_of(type), heads,
                            kv_heads, head_dim, context, rows),
                static_cast<double>(context * kv_heads) * 2 * static_cast<double>(row_bytes(type, head_dim)),
                4.0 * pairs * static_cast<double>(heads * head_dim),
                [=, this] {
                    // Each call takes new tiles, in order of the pool.
                    for (int64_t t = 0; t <= (context - 1) / kTileTokens; ++t) {
                        const Tensor tile = weights(DType::kU8, Shape{static_cast<int64_t>(kv.layout.tile_bytes())});
                        static_cast<int64_t*>(kv.tiles.data())[t] =
                            static_cast<int64_t>(reinterpret_cast<uintptr_t>(tile.data()));
                    }
                    kernels_->attention(out, q, kv, kv_of_head, cache);
                },
                {}};
    }

    Case rowwise(const char* name, int64_t rows, int64_t n, const std::function<void(const Tensor&, const Tensor&)>& op,
                 double traffic) {
        const Tensor a = floats(Shape{rows, n}), b = floats(Shape{rows, 2 * n});
        return {fmt::format("{} [{},{}]", name, rows, n),
                traffic * static_cast<double>(rows * n) * 4,
                0,
                [=] { op(a, b); },
                {}};
    }

    /// Samples a token from each row of normally distributed logits (deviation 3, vocabulary 49,152).
    Case sample(const char* name, const SamplingParams& params, int64_t rows) {
        constexpr int64_t kVocab = 49152;
        const Tensor logits = arena_.take(DType::kF32, Shape{1, rows, kVocab}),
                     ids = arena_.take(DType::kI32, Shape{rows}), uniforms = arena_.take(DType::kI64, Shape{rows});
        std::mt19937_64 engine(1);
        std::normal_distribution<float> normal(0, 3);
        for (int64_t i = 0; i < rows * kVocab; ++i) static_cast<float*>(logits.data())[i] = normal(engine);
        for (int64_t r = 0; r < rows; ++r) {
            static_cast<int64_t*>(uniforms.data())[r] =
                fraction_of((static_cast<double>(r) + 0.5) / static_cast<double>(rows));
        }
        return {fmt::format("sample {} rows {}", name, rows),
                static_cast<double>(rows * kVocab) * 4,
                0,
                [=, this] { kernels_->sample(ids, logits, kVocab, uniforms, rule_of(params)); },
                {}};
    }

    void time(Case& c) {
        auto* stamps = stamps_;
        CpuStream& s = cpu(*stream_);
        const clockid_t clock = s.threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
        s.enqueue("", 0, [stamps, clock] { stamps[0] = now(clock); });
        c.enqueue();
        s.enqueue("", 0, [stamps, clock] { stamps[1] = now(clock); });
        s.synchronize();
        c.seconds.push_back(static_cast<double>(stamps_[1] - stamps_[0]) * 1e-9);
    }
    Kernels& kernels() { return *kernels_; }

  private:
    Phase phase_;
    CpuDevice device_;
    std::unique_ptr<Stream> stream_;
    std::unique_ptr<Kernels> kernels_;
    Arena<Space::kDevice> arena_;
    Buffer<Space::kDevice> pool_;
    size_t at_ = 0;
    uint64_t stamps_[2] = {0, 0};
};

int run(int threads, int rounds, const std::string& filter) {
    Bench decode(threads, Phase::kDecode), prefill(threads, Phase::kPrefill);
    std::vector<std::pair<Bench*, Case>> cases;
    for (const DType type : {DType::kF16, DType::kBF16}) {
        for (const auto& [n, k] :
             {std::pair<int64_t, int64_t>{960, 576}, {576, 576}, {3072, 576}, {576, 1536}, {49152, 576}}) {
            for (const int64_t rows : {1, 8, 64}) cases.emplace_back(&decode, decode.matmul(type, rows, n, k));
        }
    }
    for (const int64_t context : {64, 4096, 8000}) {
        for (const int64_t rows : {1, 8}) {
            for (const DType type : {DType::kF16, DType::kBF16, DType::kQ8_0}) {
                cases.emplace_back(&decode, decode.attention(type, 9, 3, 64, context, rows));
            }
        }
    }
    for (const DType type : {DType::kF16, DType::kQ8_0}) {
        cases.emplace_back(&decode, decode.attention(type, 32, 32, 128, 4096, 1));
        cases.emplace_back(&decode, decode.attention(type, 32, 8, 128, 4096, 1));
    }
    for (const DType type : {DType::kF16, DType::kBF16}) {
        for (const auto& [n, k] : {std::pair<int64_t, int64_t>{960, 576}, {3072, 576}, {576, 1536}}) {
            for (const int64_t rows : {int64_t{10}, int64_t{64}, kPrefillRows}) {
                cases.emplace_back(&prefill, prefill.matmul(type, rows, n, k));
            }
        }
    }
    for (const int64_t context : {512, 4096}) {
        for (const DType type : {DType::kF16, DType::kBF16, DType::kQ8_0}) {
            cases.emplace_back(&prefill, prefill.attention(type, 9, 3, 64, context, kPrefillRows));
        }
    }
    for (Bench* b : {&decode, &prefill}) {
        const int64_t rows = b == &decode ? 1 : kPrefillRows;
        cases.emplace_back(
            b, b->rowwise(
                   "add", rows, 576,
                   [b](const Tensor& x, const Tensor& y) { b->kernels().add(x, y.slice_cols(0, 576)); }, 3));
        cases.emplace_back(
            b, b->rowwise(
                   "swiglu", rows, 1536, [b](const Tensor& x, const Tensor& y) { b->kernels().swiglu(x, y); }, 3));
    }
    for (const int64_t rows : {1, 64}) {
        cases.emplace_back(&decode, decode.sample("as by default", {}, rows));
        cases.emplace_back(&decode, decode.sample("the whole distribution", {1, 0, 1, 0}, rows));
        cases.emplace_back(&decode, decode.sample("top-p 0.9", {1, 0, 0.9, 0}, rows));
        cases.emplace_back(&decode, decode.sample("min-p 0.05", {1, 0, 1, 0.05}, rows));
    }
    std::erase_if(cases, [&](const auto& c) { return c.second.name.find(filter) == std::string::npos; });
    if (cases.empty()) {
        std::fprintf(stderr, "bench_kernels: no kernel's name has '%s' in it\n", filter.c_str());
        return 64;
    }

    DramReader dram(size_t{128} << 20);
    std::vector<double> dram_rate, fma_rate;
    for (int r = 0; r < rounds; ++r) {
        dram_rate.push_back(-dram.pass(threads));
        for (auto& [bench, c] : cases) {
            fma_rate.push_back(-fma_peak() * threads);
            for (int i = 0; i < 5; ++i) bench->time(c);
        }
    }
    const double read = -*std::min_element(dram_rate.begin(), dram_rate.end());
    const double peak = -*std::min_element(fma_rate.begin(), fma_rate.end());
    std::printf("%d threads; best (median) of %d: DRAM read %.1f (%.1f) GB/s, FMA peak %.0f (%.0f) GF/s\n", threads,
                rounds, read * 1e-9, -median(dram_rate) * 1e-9, peak * 1e-9, -median(fma_rate) * 1e-9);
    std::printf("%-56s %10s %10s %8s %8s %6s %6s\n", "", "us", "median us", "GB/s", "GF/s", "% read", "% peak");
    for (const auto& [bench, c] : cases) {
        const double best = *std::min_element(c.seconds.begin(), c.seconds.end());
        std::printf("%-56s %10.1f %10.1f %8.1f %8.1f %6.0f %6.0f\n", c.name.c_str(), best * 1e6,
                    median(c.seconds) * 1e6, c.bytes / best * 1e-9, c.flops / best * 1e-9, 100 * c.bytes / best / read,
                    100 * c.flops / best / peak);
    }
    return 0;
}

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
    if (argc > 4 && std::string(argv[4]) == "avx2") hwy::SetSupportedTargetsForTest(HWY_AVX2);
    return trireme::bench::run(threads, argc > 2 ? std::atoi(argv[2]) : 10, argc > 3 ? argv[3] : "");
}
