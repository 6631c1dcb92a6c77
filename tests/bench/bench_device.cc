// Products and attention of 7B shapes on a device, for decoding and prefill, coding of KV tiles, and the device's copy
// rate: one JSON line each. Prefill products (cuBLASLt on a GPU) follow the decode products of the same shape.
//   bench_device [DEVICE = cuda] [scale = 1: 1 / scale of the widths, for trying it out]

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "kernels/kernels.h"
#include "kernels/tile_coder.h"
#include "runtime/buffer.h"
#include "runtime/module.h"
#include "tests/bench/timing.h"

namespace trireme::bench {
namespace {

class Bench {
  public:
    Bench(const std::string& name, int64_t scale)
        : scale_(scale),
          device_(open_device(name, {.threads = 2})),
          stream_(device_->make_stream("bench")),
          decode_(make_kernels(*device_, *stream_, Phase::kDecode, limits(kMaxRows))),
          prefill_(make_kernels(*device_, *stream_, Phase::kPrefill, limits(kPrefillRows))),
          pool_(*device_, kPool / static_cast<size_t>(scale)),
          small_(*device_, size_t{128} << 20),
          staging_(*device_, kStaging) {
        // All values are f16 from 0.1 to 0.2.
        auto* halves = static_cast<uint16_t*>(staging_.data());
        for (size_t i = 0; i < kStaging / 2; ++i) halves[i] = static_cast<uint16_t>(0x2e66 + i * 7919 % 512);
        for (size_t at = 0; at < pool_.bytes(); at += kStaging) {
            const auto n = static_cast<int64_t>(std::min(kStaging, pool_.bytes() - at));
            stream_->copy(Tensor(static_cast<char*>(pool_.data()) + at, DType::kU8, {n}),
                          HostTensor(staging_.data(), DType::kU8, {n}));
        }
        stream_->synchronize();
    }

    void all() {
        copy_gbps_ = copies();
        fmt::print(R"({{"bench":"copy","device":"{}","gbps":{:.1f}}})"
                   "\n",
                   device_->name(), copy_gbps_);
        for (const auto& [n, k] :
             {std::pair<int64_t, int64_t>{12288, 4096}, {4096, 4096}, {22016, 4096}, {4096, 11008}, {32000, 4096}}) {
            for (const int64_t rows : {1, 8, 64}) {
                matmul(*decode_, "matmul", rows, n / scale_, k / scale_);
                matmul(*prefill_, "matmul_prefill", rows, n / scale_, k / scale_);  // cuBLASLt on a GPU
                if (n == 22016) matmul(*decode_, "matmul_swiglu", rows, n / scale_, k / scale_);
            }
            matmul(*prefill_, "matmul_prefill", kPrefillRows, n / scale_, k / scale_);
        }
        for (const int64_t kv_heads : {32, 8}) codec(kv_heads);
        for (const int64_t kv_heads : {32, 8}) {
            for (const int64_t context : {4096, 32768, 131072}) {
                for (const int64_t rows : {1, 8, 17, 64})
                    attention(*decode_, "attention", rows, kv_heads, context / scale_);
            }
            for (const int64_t context : {4096, 32768}) {
                attention(*prefill_, "attention_prefill", kPrefillRows, kv_heads,
                          std::max(context / scale_, kPrefillRows));
            }
        }
    }

  private:
    static constexpr size_t kPool = size_t{5} << 30, kStaging = size_t{32} << 20;
    static constexpr int64_t kHeads = 32, kHeadDim = 128;
    static KernelLimits limits(int64_t rows) {
        return {.max_rows = rows, .max_k = 11008, .max_n = 32000, .heads = kHeads, .head_dim = kHeadDim};
    }

    /// Seconds per call, with enough calls that the host enqueues far ahead of the device.
    double time(const std::function<void()>& enqueue) {
        for (int i = 0; i < 3; ++i) enqueue();
        stream_->synchronize();
        for (int64_t calls = 4;; calls *= 4) {
            const auto begin = std::chrono::steady_clock::now();
            for (int64_t i = 0; i < calls; ++i) enqueue();
            stream_->synchronize();
            const double s = seconds_since(begin);
            if (s > 0.1) return s / static_cast<double>(calls);
        }
    }
    /// Bytes per second that the device's own copies read and write.
    double copies() {
        const auto half = static_cast<int64_t>(pool_.bytes() / 2);
        const Tensor from(pool_.data(), DType::kU8, {half}),
            to(static_cast<char*>(pool_.data()) + half, DType::kU8, {half});
        return 2 * static_cast<double>(half) / time([&] { stream_->copy(to, from); }) * 1e-9;
    }
    /// The next bytes of the pool, which are in no cache.
    void* next(size_t bytes) {
        if (at_ + bytes > pool_.bytes()) at_ = 0;
        void* data = static_cast<char*>(pool_.data()) + at_;
        at_ += (bytes + 255) / 256 * 256;
        return data;
    }
    template <class T>
    Tensor on_device(DType type, const Shape& shape, const std::function<T(int64_t)>& value) {
        const Tensor t = small_.take(type, shape);
        const HostTensor host = staging_.tensor(type, shape);
        for (int64_t i = 0; i < shape.elements(); ++i) static_cast<T*>(host.data())[i] = value(i);
        stream_->copy(t, host);
        stream_->synchronize();
        return t;
    }
    Tensor floats(const Shape& shape) {
        return on_device<float>(DType::kF32, shape,
                                [](int64_t i) { return static_cast<float>(i * 37 % 101 - 50) / 50; });
    }
    Tensor ints(const Shape& shape, const std::function<int32_t(int64_t)>& value) {
        return on_device<int32_t>(DType::kI32, shape, value);
    }

    void matmul(Kernels& op, const char* name, int64_t rows, int64_t n, int64_t k) {
        small_ = Arena<Space::kDevice>(*device_, size_t{128} << 20);
        const size_t bytes = static_cast<size_t>(n * k) * 2;
        const auto w = [&] { return Tensor(next(bytes), DType::kF16, {n, k}); };
        // As in a forward: rows that a norm has rounded, and an output that the next product reads.
        const Tensor x = op.input_of(small_.take(DType::kF32, {rows, k}), w()),
                     out = small_.take(DType::kF32, {rows, n}),
                     act = op.input_of(small_.take(DType::kF32, {rows, n / 2}),
                                       Tensor(next(bytes), DType::kF16, {k, n / 2}));
        op.rmsnorm(x, floats({rows, k}), floats({k}), 1e-5F);
        const bool gated = std::string_view(name) == "matmul_swiglu";
        const double s = time([&] { gated ? op.matmul_swiglu(act, out, x, w()) : op.matmul(out, x, w()); });
        const double gbps = static_cast<double>(bytes) / s * 1e-9;
        fmt::print(
            R"({{"bench":"{}","n":{},"k":{},"rows":{},"us":{:.2f},"gbps":{:.1f},"of_copy":{:.3f},"tflops":{:.2f}}})"
            "\n",
            name, n, k, rows, s * 1e6, gbps, gbps / copy_gbps_, 2 * static_cast<double>(rows * n * k) / s * 1e-12);
        std::fflush(stdout);
    }

    void attention(Kernels& op, const char* name, int64_t rows, int64_t kv_heads, int64_t context) {
        small_ = Arena<Space::kDevice>(*device_, size_t{128} << 20);
        LayerKv kv;
        kv.layout = {kv_heads, kHeadDim, DType::kF16, DType::kF16};
        const int64_t tiles = tiles_for(context);
        kv.tiles = on_device<int64_t>(DType::kI64, {1, tiles}, [&](int64_t) {
            return static_cast<int64_t>(reinterpret_cast<uintptr_t>(next(kv.layout.tile_bytes())));
        });
        kv.staged_k = small_.take(DType::kF16, {kv_heads, kMaxRows, kHeadDim});
        kv.staged_v = small_.take(DType::kF16, {kv_heads, kMaxRows, kHeadDim});
        const int64_t first = context - rows;
        const RowsView cache = {
            .slots = ints({rows}, [&](int64_t r) { return static_cast<int32_t>(first + r); }),
            .sequences = ints({rows}, [](int64_t) { return 0; }),
            .cached = ints({rows}, [&](int64_t) { return static_cast<int32_t>(first); }),
            .ancestors = ints({rows, kMaxRows}, [](int64_t i) { return static_cast<int32_t>(i % kMaxRows); }),
            .max_slots = context};
        const Tensor kv_of_head =
            ints({kHeads}, [&](int64_t h) { return static_cast<int32_t>(h * kv_heads / kHeads); });
        const Tensor q = floats({rows, kHeads * kHeadDim}), out = floats({rows, kHeads * kHeadDim});
        const double s = time([&] { op.attention(out, q, kv, kv_of_head, cache); });
        const double bytes = static_cast<double>(context * kv_heads * kHeadDim) * 4;
        const double pairs =
            static_cast<double>(rows) * (static_cast<double>(first) + static_cast<double>(rows + 1) / 2);
        fmt::print(R"({{"bench":"{}","kv_heads":{},"context":{},"rows":{},"us":{:.2f},"gbps":{:.1f},"of_copy":{:.3f},)"
                   R"("tflops":{:.2f}}})"
                   "\n",
                   name, kv_heads, context, rows, s * 1e6, bytes / s * 1e-9, bytes / s * 1e-9 / copy_gbps_,
                   4 * pairs * static_cast<double>(kHeads * kHeadDim) / s * 1e-12);
        std::fflush(stdout);
    }

    /// Coding and decoding of 16 tiles of bf16, without escapes.
    void codec(int64_t kv_heads) {
        constexpr int64_t kTiles = 16;
        const KvLayout layout{kv_heads, kHeadDim, DType::kBF16, DType::kBF16};
        const std::unique_ptr<TileCoder> coder = make_tile_coder(*device_, *stream_, layout);
        const size_t bytes = kTiles * layout.tile_bytes(),
                     coded_bytes = static_cast<size_t>(kTiles * coder->code().bytes);
        auto* plain = static_cast<char*>(next(bytes));
        auto* coded = static_cast<char*>(next(coded_bytes));
        auto* counts = static_cast<uint32_t*>(next(kTiles * sizeof(uint32_t)));
        const double encode = time([&] { coder->encode(coded, counts, plain, kTiles); });
        const double decode = time([&] { coder->decode(plain, coded, kTiles); });
        for (const auto& [name, s] : {std::pair{"kv_encode", encode}, {"kv_decode", decode}}) {
            const double gbps = static_cast<double>(bytes + coded_bytes) / s * 1e-9;
            fmt::print(
                R"({{"bench":"{}","kv_heads":{},"us":{:.2f},"plain_gbps":{:.1f},"gbps":{:.1f},"of_copy":{:.3f}}})"
                "\n",
                name, kv_heads, s * 1e6, static_cast<double>(bytes) / s * 1e-9, gbps, gbps / copy_gbps_);
        }
        std::fflush(stdout);
    }

    int64_t scale_;
    std::unique_ptr<Device> device_;
    std::unique_ptr<Stream> stream_;
    std::unique_ptr<Kernels> decode_, prefill_;
    Buffer<Space::kDevice> pool_;
    Arena<Space::kDevice> small_;
    Buffer<Space::kHost> staging_;
    size_t at_ = 0;
    double copy_gbps_ = 0;
};

}  // namespace
}  // namespace trireme::bench

int main(int argc, char** argv) {
    try {
        const std::string device = argc > 1 ? argv[1] : "cuda";
        if (device.starts_with("cuda")) trireme::load_cuda_module();
        trireme::bench::Bench(device, argc > 2 ? std::atoll(argv[2]) : 1).all();
        return 0;
    } catch (const trireme::Error& e) {
        std::fprintf(stderr, "bench_device: %s\n", e.what());
        return static_cast<int>(e.code());
    }
}
