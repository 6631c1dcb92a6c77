// The first check on a GPU: every hot kernel compared with a loop in double, then the latencies that the design
// assumes. This file needs only nvcc:
//   nvcc -std=c++20 -O3 -arch=native -fmad=false --expt-relaxed-constexpr -I. tests/gpu_smoke.cu -o gpu_smoke
//   ./gpu_smoke [SCALE = 1]     divides the number of timed bytes by SCALE, for a trial on a slow device
// Prints failures first, then a JSON line per latency; exit status 1 if a kernel is wrong, 69 without a GPU.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "dist/cuda/mailbox_sum.h"
#include "dist/cuda/sum_parts.h"
#include "kernels/cuda/accept.h"
#include "kernels/cuda/attention_prefill.h"
#include "kernels/cuda/attention_split.h"
#include "kernels/cuda/chunks.h"
#include "kernels/cuda/kv.h"
#include "kernels/cuda/matmul_blocks.h"
#include "kernels/cuda/rowwise.h"
#include "kernels/cuda/sample.h"
#include "runtime/cuda/copy_bytes.h"
#include "runtime/cuda/device_gpu.cuh"

namespace trireme::gpu {
namespace {

cudaStream_t stream, other;
DeviceFault* fault;
int failures = 0;

void cuda(cudaError_t code, const char* call) {
    if (code == cudaSuccess) return;
    std::printf("FAILED %s: %s\n", call, cudaGetErrorString(code));
    std::exit(1);
}

/// Zeroed host memory, pinned as in the engine: mapped pages, registered; kernels read it at the same address.
void* pinned(size_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(data, 0, bytes);
    cuda(cudaHostRegister(data, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped), "cudaHostRegister");
    return data;
}

/// Device memory with a copy on the host; never freed.
template <class T>
struct Array {
    explicit Array(std::vector<T> values) : host(std::move(values)) {
        cuda(cudaMalloc(&device, std::max<size_t>(1, host.size()) * sizeof(T)), "cudaMalloc");
        cuda(cudaMemcpyAsync(device, host.data(), host.size() * sizeof(T), cudaMemcpyDefault, stream), "upload");
        cuda(cudaStreamSynchronize(stream), "upload");
    }
    explicit Array(size_t n) : Array(std::vector<T>(n)) {}
    std::vector<T>& read() {
        cuda(cudaMemcpyAsync(host.data(), device, host.size() * sizeof(T), cudaMemcpyDefault, stream), "download");
        cuda(cudaStreamSynchronize(stream), "download");
        return host;
    }
    std::vector<T> host;
    T* device = nullptr;
};

template <class Body>
void launch(const Grid& grid, const typename Body::Args& args, cudaStream_t on = stream) {
    size_t shared = 0;
    if constexpr (requires { Body::kSharedBytes; }) shared = static_cast<size_t>(Body::kSharedBytes);
    if (shared > 48 << 10) {
        cuda(cudaFuncSetAttribute(run_body<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)),
             "shared memory");
    }
    run_body<Body>
        <<<dim3(unsigned(grid.x), unsigned(grid.y), unsigned(grid.z)), Body::kThreads, shared, on>>>(args, fault, "");
    cuda(cudaGetLastError(), "launch");
}

void finish(const std::string& what, double error, double most) {
    const bool good = error <= most && fault->kind == 0;  // false for a NaN
    if (!good) std::printf("FAILED %s: error %g, at most %g; fault %d\n", what.c_str(), error, most, fault->kind);
    failures += !good;
}

std::vector<float> random_floats(size_t n, unsigned seed, float scale = 1) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, scale);
    std::vector<float> x(n);
    for (float& v : x) v = normal(engine);
    return x;
}
std::vector<f16> halves(const std::vector<float>& x) {
    return {x.begin(), x.end()};
}
double largest_difference(const std::vector<float>& a, const std::vector<double>& b) {
    double most = 0;
    for (size_t i = 0; i < b.size(); ++i) {
        const double d = std::fabs(a[i] - b[i]);
        if (!(d <= most)) most = d;
    }
    return most;
}

void rowwise() {
    const int64_t rows = 3, n = 577;
    Array<float> x(random_floats(rows * 2 * n, 1)), w(random_floats(n, 2)), norm(rows * n), gated(rows * n);
    launch<RmsNorm>({rows}, {{norm.device, n}, {x.device, n}, w.device, n, 1e-5f});
    launch<Swiglu>({div_up(n, Swiglu::kThreads), rows}, {{gated.device, n}, {x.device, 2 * n}, n});
    std::vector<double> want_norm(rows * n), want_gated(rows * n);
    for (int64_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (int64_t i = 0; i < n; ++i) squares += double(x.host[r * n + i]) * x.host[r * n + i];
        for (int64_t i = 0; i < n; ++i) {
            want_norm[r * n + i] = x.host[r * n + i] / std::sqrt(squares / n + 1e-5) * w.host[i];
            const double g = x.host[r * 2 * n + i], up = x.host[r * 2 * n + n + i];
            want_gated[r * n + i] = g / (1 + std::exp(-g)) * up;
        }
    }
    finish("RmsNorm", largest_difference(norm.read(), want_norm), 1e-5);
    finish("Swiglu", largest_difference(gated.read(), want_gated), 1e-5);
}

/// Fused operations of a layer, with outputs in f16: x += added and its norm; a product and SwiGLU. 17 rows, as when 16
/// proposed tokens are verified.
void fused() {
    const int64_t rows = 17, n = 1056, half = 290;
    Array<float> x(random_floats(rows * n, 21)), added(random_floats(rows * n, 22)), weight(random_floats(n, 23));
    const std::vector<float> before = x.host;
    Array<f16> normed(rows * n), w(halves(random_floats(2 * half * n, 24, 0.05f))), act(rows * half);
    launch<RmsNorm>({rows},
                    {{normed.device, n, DType::kF16}, {x.device, n}, weight.device, n, 1e-5f, {added.device, n}});
    launch<MatmulDecode<f16, 4>>(
        {div_up(half, 8)},
        {{act.device, half, DType::kF16}, {normed.device, n}, {w.device, true}, rows, 2 * half, n, true});
    x.read(), normed.read();
    std::vector<double> want_x(rows * n), want_normed(rows * n), want_act(rows * half);
    double largest = 0;
    for (int64_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (int64_t i = r * n; i < (r + 1) * n; ++i) {
            want_x[i] = double(before[i]) + added.host[i];
            squares += want_x[i] * want_x[i];
        }
        for (int64_t i = 0; i < n; ++i)
            want_normed[r * n + i] = want_x[r * n + i] / std::sqrt(squares / n + 1e-5) * weight.host[i];
        for (int64_t c = 0; c < half; ++c) {
            double gate = 0, up = 0;
            for (int64_t i = 0; i < n; ++i) {
                gate += double(float(normed.host[r * n + i])) * float(w.host[c * n + i]);
                up += double(float(normed.host[r * n + i])) * float(w.host[(half + c) * n + i]);
            }
            want_act[r * half + c] = gate / (1 + std::exp(-gate)) * up;
            largest = std::max(largest, std::fabs(want_act[r * half + c]));
        }
    }
    const auto widened = [](Array<f16>& a) { return std::vector<float>(a.host.begin(), a.host.end()); };
    finish("RmsNorm with an addition: x", largest_difference(x.host, want_x), 1e-6);
    finish("RmsNorm with an addition, f16", largest_difference(widened(normed), want_normed), 0x1p-11 * 16);
    act.read();
    finish("MatmulDecode with SwiGLU, f16", largest_difference(widened(act), want_act), 0x1p-10 * largest);
}

/// Sums of rank 0; the host is rank 1, and is late.
void mailbox() {
    const int64_t n = 3000;
    auto* boxes = static_cast<Mailbox*>(pinned(2 * sizeof(Mailbox)));
    Array<uint32_t> calls(Mailbox::kBlocks);
    double error = 0;
    for (unsigned call = 1; call <= 3; ++call) {
        Array<float> x(random_floats(n, 25 + call));
        const std::vector<float> mine = x.host, theirs = random_floats(n, 35 + call);
        std::thread peer([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            std::copy(theirs.begin(), theirs.end(), boxes[1].parts[call % 2]);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            for (auto& word : boxes[1].calls) *static_cast<volatile uint32_t*>(&word.value) = call;
        });
        launch<MailboxSum>({div_up(n, Mailbox::kFloats)}, {x.device, n, boxes, calls.device, 2, 0});
        x.read();
        peer.join();
        for (int64_t i = 0; i < n; ++i) error += x.host[i] != mine[i] + theirs[i] || boxes[0].parts[call % 2][i] != mine[i];
        for (int b = 0; b < Mailbox::kBlocks; ++b) error += boxes[0].calls[b].value != (b < 3 ? call : 0);
    }
    finish("MailboxSum", error, 0);
}

template <int kTiles>
void matmul(int64_t rows) {
    const int64_t n = 290, k = 1048, padded = 1056;  // rows of x are padded to 32 elements
    Array<float> x(random_floats(rows * k, 3));
    Array<f16> rounded(rows * padded), w(halves(random_floats(n * k, 4)));
    Array<float> out(rows * n);
    launch<RoundRows<f16>>({div_up(padded, RoundRows<f16>::kThreads), rows},
                           {{x.device, k}, {rounded.device, padded}, k, padded});
    launch<MatmulDecode<f16, kTiles>>({div_up(n, 16)},
                                      {{out.device, n}, {rounded.device, padded}, {w.device, true}, rows, n, k});
    std::vector<double> want(rows * n);
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < n; ++c) {
            for (int64_t i = 0; i < k; ++i)
                want[r * n + c] += double(float(f16(x.host[r * k + i]))) * float(w.host[c * k + i]);
        }
    }
    // Products are exact in f32; tensor cores may truncate each addition, by half a step of the running sum.
    finish("RoundRows and MatmulDecode, rows: " + std::to_string(rows), largest_difference(out.read(), want),
           k / 16 * 1.2e-7 * 4 * std::sqrt(k));
}

/// Element i of a block.
float q8_0(const uint8_t* b, int i) {
    f16 d;
    std::memcpy(&d, b, 2);
    return static_cast<float>(static_cast<int8_t>(b[2 + i])) * float(d);
}
float q4_k(const uint8_t* b, int i) {
    f16 d, dmin;
    std::memcpy(&d, b, 2);
    std::memcpy(&dmin, b + 2, 2);
    const int g = i / 32;
    const uint8_t* s = b + 4;
    const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6) << 4;
    const int min = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6) << 4;
    const int code = b[16 + g / 2 * 32 + i % 32] >> (g % 2 * 4) & 15;
    return float(code) * (float(d) * float(scale)) - float(dmin) * float(min);
}

template <StoredType kType>
void matmul_blocks(float (*element)(const uint8_t*, int)) {
    using Eight = StoredEight<kType>;
    const int64_t n = 290, k = 1024, rows = 17, stride = k / Eight::kElements * Eight::kBytes;
    std::mt19937 engine(11);
    std::vector<uint8_t> bytes(n * stride);
    for (uint8_t& b : bytes) b = uint8_t(engine());
    for (size_t at = 0; at < bytes.size(); at += Eight::kBytes) {
        const f16 scales[] = {f16(0.01f), f16(0.02f)};
        std::memcpy(&bytes[at], scales, kType == StoredType::kQ8_0 ? 2 : 4);
    }
    Array<float> x(random_floats(rows * k, 3)), out(rows * n), exact(rows * n);
    Array<uint8_t> w(bytes);
    Array<f16> rounded(rows * k);
    launch<RoundRows<f16>>({div_up(k, RoundRows<f16>::kThreads), rows}, {{x.device, k}, {rounded.device, k}, k, k});
    using Body = MatmulDecode<f16, 4, BlockWeights<kType, f16>>;
    launch<Body>({div_up(n, Body::kColumns)}, {{out.device, n}, {rounded.device, k}, {{w.device, stride}}, rows, n, k});
    using Exact = MatmulBlocksF32<kType>;
    launch<Exact>({div_up(n, Exact::kColumns)}, {{exact.device, n}, {x.device, k}, {w.device, stride}, rows, n, k, 0});
    std::vector<double> want(rows * n), want_exact(rows * n);
    double largest = 0;
    for (int64_t c = 0; c < n; ++c) {
        for (int64_t i = 0; i < k; ++i) {
            const float weight =
                element(&w.host[c * stride + i / Eight::kElements * Eight::kBytes], int(i % Eight::kElements));
            largest = std::max(largest, std::fabs(double(weight)));
            for (int64_t r = 0; r < rows; ++r) {
                want[r * n + c] += double(float(f16(x.host[r * k + i]))) * float(f16(weight));
                want_exact[r * n + c] += double(x.host[r * k + i]) * weight;
            }
        }
    }
    const double most = largest * double(k / 16) * 1.2e-7 * 4 * std::sqrt(double(k));
    finish("MatmulDecode of blocks, type " + std::to_string(int(kType)), largest_difference(out.read(), want), most);
    finish("MatmulBlocksF32, type " + std::to_string(int(kType)), largest_difference(exact.read(), want_exact), most);
}

/// A sequence of `cached` tokens in tiles and a chain of `rows` staged ones; 8 query heads on 2 KV heads of 128.
struct Cache {
    static constexpr int64_t kHeads = 8, kKvHeads = 2, kDim = 128, kWidth = kKvHeads * kDim;
    Cache(int64_t cached, int64_t rows)
        : cached(cached),
          rows(rows),
          n_tiles(div_up(cached + kStaged, kTile)),
          keys(halves(random_floats((cached + rows) * kWidth, 5))),
          values(halves(random_floats((cached + rows) * kWidth, 6))),
          tiles(n_tiles * kKvHeads * kTile * kDim * 2),
          table(n_tiles),
          staged_k(kKvHeads * kStaged * kDim),
          staged_v(staged_k.host.size()),
          q(random_floats(rows * kHeads * kDim, 7)),
          slots(rows),
          sequences(rows),
          cached_of(rows),
          ancestors(rows * kStaged),
          heads({0, 0, 0, 0, 1, 1, 1, 1}) {
        std::vector<int64_t> addresses(n_tiles);
        for (int64_t t = 0; t < n_tiles; ++t)
            addresses[t] = reinterpret_cast<int64_t>(tiles.device + t * kKvHeads * kTile * kDim * 2);
        table = Array<int64_t>(addresses);
        kv = {{table.device, n_tiles},
              1,
              0,
              n_tiles,
              kKvHeads,
              kDim,
              reinterpret_cast<char*>(staged_k.device),
              reinterpret_cast<char*>(staged_v.device),
              DType::kF16,
              DType::kF16,
              kDim * 2,
              kDim * 2};
        append();
        std::vector<int32_t> slot(rows), before(rows, int32_t(cached)), path(rows * kStaged);
        for (int64_t r = 0; r < rows; ++r) {
            slot[r] = int32_t(cached + r);
            for (int64_t i = 0; i <= r; ++i) path[r * kStaged + i] = int32_t(i);
        }
        slots = Array<int32_t>(slot);
        cached_of = Array<int32_t>(before);
        ancestors = Array<int32_t>(path);
        Array<float> k(wide(keys, cached, rows)), v(wide(values, cached, rows));
        launch<KvStage>(
            {rows, 2},
            {kv, {k.device, kWidth}, {v.device, kWidth}, slots.device, cached_of.device, {ancestors.device, kStaged}});
    }
    void append() {
        std::vector<int32_t> slot(cached);
        for (int64_t i = 0; i < cached; ++i) slot[i] = int32_t(i);
        Array<int32_t> at(slot), first(cached);
        Array<float> k(wide(keys, 0, cached)), v(wide(values, 0, cached));
        launch<KvAppend>({cached, 2}, {kv, {k.device, kWidth}, {v.device, kWidth}, at.device, first.device});
        cuda(cudaStreamSynchronize(stream), "KvAppend");
    }
    static std::vector<float> wide(const std::vector<f16>& x, int64_t first, int64_t n) {
        std::vector<float> out;
        for (int64_t i = first * kWidth; i < (first + n) * kWidth; ++i) out.push_back(float(x[i]));
        return out;
    }
    /// Attention of row r, head h, over slots [0, seen).
    void reference(int64_t r, int64_t h, int64_t seen, double* out) const {
        const int64_t kv_head = h / (kHeads / kKvHeads);
        std::vector<double> p(seen);
        double top = -1e300, sum = 0;
        for (int64_t s = 0; s < seen; ++s) {
            for (int64_t i = 0; i < kDim; ++i)
                p[s] += double(q.host[(r * kHeads + h) * kDim + i]) * float(keys[s * kWidth + kv_head * kDim + i]);
            top = std::max(top, p[s] /= std::sqrt(double(kDim)));
        }
        for (double& x : p) sum += x = std::exp(x - top);
        for (int64_t i = 0; i < kDim; ++i) {
            out[i] = 0;
            for (int64_t s = 0; s < seen; ++s) out[i] += p[s] / sum * float(values[s * kWidth + kv_head * kDim + i]);
        }
    }
    int64_t cached, rows, n_tiles;
    std::vector<f16> keys, values;
    Array<f16> tiles;
    Array<int64_t> table;
    Array<f16> staged_k, staged_v;
    Array<float> q;
    Array<int32_t> slots, sequences, cached_of, ancestors, heads;
    Kv kv{};
};
constexpr float kScale = kLog2E / 11.3137085f;  // sqrt(128)

/// Decode rows of one sequence: 4 vectors of a KV head for each.
struct Decode {
    explicit Decode(Cache& c)
        : rows(c.rows),
          splits(GradedSplits::of_tile(c.n_tiles - 1) + 1),
          out(c.rows * Cache::kHeads * Cache::kDim),
          records(splits * out.host.size() / Cache::kDim * (kMaxAndSum + Cache::kDim)),
          running(2 * kStaged * Cache::kHeads * (kMaxAndSum + Cache::kDim)),
          seen{c.slots.device, c.sequences.device, c.cached_of.device, {c.ancestors.device, kStaged}, c.rows, kStaged,
               false},
          cache(c) {}
    void enqueue() {
        if (rows == 1) return enqueue_by<AttendSplit<f16, Cache::kDim, 1>>();
        enqueue_by<AttendSplit<f16, Cache::kDim, 4>>();
    }
    template <class Body>
    void enqueue_by() {
        constexpr int64_t kWidth = Cache::kHeads * Cache::kDim;
        const Wave wave = {0, cache.n_tiles * kTile, 0, splits};
        const int64_t width = div_up(rows * Cache::kHeads / Cache::kKvHeads, Body::kVectors);
        float* open = running.device + kStaged * Cache::kHeads * (kMaxAndSum + Cache::kDim);
        launch<Body>({width, Cache::kKvHeads, splits}, {cache.kv,
                                                        seen,
                                                        {cache.q.device, kWidth},
                                                        cache.heads.device,
                                                        Cache::kHeads,
                                                        wave.end,
                                                        wave,
                                                        int(width),
                                                        records.device,
                                                        open,
                                                        kStaged,
                                                        kScale});
        launch<MergeSplits<GradedSplits>>({Cache::kHeads, rows}, {records.device,
                                                                  running.device,
                                                                  {out.device, kWidth},
                                                                  seen,
                                                                  cache.heads.device,
                                                                  Cache::kHeads,
                                                                  Cache::kDim,
                                                                  wave});
    }
    int64_t rows, splits;
    Array<float> out, records, running;
    Seen seen;
    Cache& cache;
};

void attention(int64_t rows) {
    Cache c(700, rows);
    Decode decode(c);
    decode.enqueue();
    std::vector<double> want(decode.out.host.size());
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t h = 0; h < Cache::kHeads; ++h)
            c.reference(r, h, 701 + r, want.data() + (r * Cache::kHeads + h) * Cache::kDim);
    }
    finish("AttendSplit and MergeSplits " + std::to_string(rows), largest_difference(decode.out.read(), want), 2e-5);
    // KvKeep moves the staged rows into the tiles.
    std::vector<int32_t> moves;
    for (int64_t r = 0; r < rows; ++r) moves.insert(moves.end(), {int32_t(r), int32_t(700 + r), 0});
    Array<int32_t> kept(moves);
    KvKeep::Args args = {c.kv, {kept.device, 3}, {{c.table.device, c.kv.staged_k, c.kv.staged_v}}};
    launch<KvKeep>({rows, Cache::kKvHeads, 1}, args);
    std::vector<f16>& tiles = c.tiles.read();
    double wrong = 0;
    for (int64_t s = 0; s < 700 + rows; ++s) {
        for (int64_t i = 0; i < Cache::kWidth; ++i) {
            const int64_t head = i / Cache::kDim,
                          at = ((s / kTile * 2 * Cache::kKvHeads + head) * kTile + s % kTile) * Cache::kDim +
                               i % Cache::kDim;
            wrong += tiles[at].bits != c.keys[s * Cache::kWidth + i].bits;
            wrong += tiles[at + Cache::kKvHeads * kTile * Cache::kDim].bits != c.values[s * Cache::kWidth + i].bits;
        }
    }
    finish("KvAppend, KvStage and KvKeep", wrong, 0);
}

void prefill() {
    Cache c(300, 1);
    const int64_t rows = 75, first = 225;
    std::vector<int32_t> slot(rows);
    for (int64_t r = 0; r < rows; ++r) slot[r] = int32_t(first + r);
    Array<int32_t> slots(slot), sequences(rows);
    c.q = Array<float>(random_floats(rows * Cache::kHeads * Cache::kDim, 8));
    Array<float> out(c.q.host.size());
    using Body = AttendPrefill<f16, 128>;
    const Seen seen = {slots.device, sequences.device, nullptr, {nullptr, 0}, rows, rows, true};
    launch<Body>({Body::blocks(rows, Cache::kHeads, Cache::kKvHeads)}, {c.kv,
                                                                        seen,
                                                                        {c.q.device, Cache::kHeads * Cache::kDim},
                                                                        {out.device, Cache::kHeads * Cache::kDim},
                                                                        c.heads.device,
                                                                        Cache::kHeads,
                                                                        c.n_tiles * kTile,
                                                                        kScale});
    std::vector<double> want(out.host.size());
    for (int64_t r = 0; r < rows; ++r) {
        for (int64_t h = 0; h < Cache::kHeads; ++h)
            c.reference(r, h, first + r + 1, want.data() + (r * Cache::kHeads + h) * Cache::kDim);
    }
    finish("AttendPrefill", largest_difference(out.read(), want),
           2e-2);  // queries and probabilities are rounded to f16
}

/// Samples an id by integer weights up to 2^40, in the order of kernels/sampling.h, without filters.
int64_t drawn(const std::vector<float>& logits, float scale, double u) {
    std::vector<int64_t> ids(logits.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = int64_t(i);
    std::stable_sort(ids.begin(), ids.end(), [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
    if (scale == 0) return ids[0];
    uint64_t sum = 0, before = 0;
    for (const int64_t i : ids) sum += weight_of(logits[i], logits[ids[0]], scale);
    const auto reach = uint64_t(share(uint64_t(fraction_of(u)), sum));
    for (const int64_t i : ids) {
        if ((before += weight_of(logits[i], logits[ids[0]], scale)) > reach) return i;
    }
    return -1;
}

void sampling() {
    const int64_t vocab = 5003, rows = 4;
    Array<float> logits(random_floats(rows * vocab, 9, 3));
    const double u[rows] = {0, 0.2, 0.7, 0.999};
    std::vector<int64_t> fractions(rows);
    for (int64_t r = 0; r < rows; ++r) fractions[r] = fraction_of(u[r]);
    Array<int64_t> uniforms(fractions);
    Array<int32_t> ids(rows);
    Array<RowDistribution> distributions(rows);
    for (const double temperature : {0.0, 0.8}) {
        const SamplingRule rule = rule_of({.temperature = temperature, .top_k = 0, .top_p = 1, .min_p = 0});
        launch<Sample>({rows}, {logits.device, rows, vocab, vocab, uniforms.device, nullptr, ids.device,
                                distributions.device, rule});
        double wrong = 0;
        for (int64_t r = 0; r < rows; ++r) {
            wrong += ids.read()[r] !=
                     drawn({logits.host.begin() + r * vocab, logits.host.begin() + (r + 1) * vocab}, rule.scale, u[r]);
        }
        finish("Sample at temperature " + std::to_string(temperature), wrong, 0);
    }
    // A chain of three proposals that are point masses: each is accepted if its probability exceeds its uniform.
    std::vector<Proposal> proposals(4);
    int32_t expected = 0;
    bool all = true;
    for (int64_t i = 0; i < 3; ++i) {
        const RowDistribution& distribution = distributions.read()[i];
        std::vector<float> row(logits.host.begin() + i * vocab, logits.host.begin() + (i + 1) * vocab);
        const int64_t token = std::max_element(row.begin(), row.end()) - row.begin();
        const double p = double(weight_of(row[token], distribution.top, distribution.scale)) / double(distribution.sum);
        const double threshold = i < 2 ? p * 0.9 : std::min(1.0, p * 1.1);
        proposals[i + 1] = {.token = token, .parent = i - 1, .uniform = uint64_t(fraction_of(threshold))};
        all = all && threshold < p;
        expected += all;
    }
    Array<Proposal> tree(proposals);
    Array<uint64_t> weights(vocab);
    Array<int32_t> out(5);
    launch<Accept>({1}, {tree.device, distributions.device, logits.device, 3, rows, vocab, rows * vocab, vocab,
                         weights.device, out.device});
    finish("Accept", std::abs(out.read()[0] - expected), 0);
}

void retrieval() {
    Cache c(1024, 1);
    const int64_t chunk = 8, chunks = 128, picked = 16;
    Array<f16> means(Cache::kKvHeads * chunks * Cache::kDim);
    Array<uint64_t> keys(Cache::kKvHeads * chunks);
    Array<int32_t> places(Cache::kKvHeads * chunks);
    Array<ChunkPick> pick(std::vector<ChunkPick>{{int32_t(chunks), int32_t(picked), 1024}});
    launch<ChunkMeans>({chunks, Cache::kKvHeads},
                       {c.kv, reinterpret_cast<char*>(means.device), DType::kF16, chunks, 0, 0, chunk});
    launch<ScoreChunks<f16>>(
        {div_up(chunks, ScoreChunks<f16>::kChunks), Cache::kKvHeads},
        {keys.device, means.device, c.q.device, c.heads.device, Cache::kHeads, chunks, Cache::kDim, pick.device});
    launch<PlaceChunks>({Cache::kKvHeads}, {places.device, keys.device, chunks, pick.device});
    Cache to(1024, 1);
    launch<GatherChunks>({chunks, Cache::kKvHeads}, {to.kv, c.kv, places.device, chunks, 0, chunk, pick.device});
    double wrong = 0;
    for (int64_t h = 0; h < Cache::kKvHeads; ++h) {
        std::vector<std::pair<double, int64_t>> scores;
        for (int64_t n = 0; n < chunks; ++n) {
            double score = 0;
            for (int64_t i = 0; i < Cache::kDim; ++i) {
                double query = 0;
                for (int64_t q = 0; q < 4; ++q) query += c.q.host[(h * 4 + q) * Cache::kDim + i];
                score += query * float(means.read()[(h * chunks + n) * Cache::kDim + i]);
            }
            scores.push_back({n == 0 ? -1e300 : -score, n});
        }
        std::sort(scores.begin(), scores.end());
        std::vector<int64_t> chosen;
        for (int64_t i = 0; i < picked; ++i) chosen.push_back(scores[i].second);
        std::sort(chosen.begin(), chosen.end());
        for (int64_t i = 0; i < picked; ++i) {
            wrong += places.read()[h * chunks + chosen[i]] != i;
            const f16 key = to.tiles.read()[(h * kTile + i * chunk) * Cache::kDim];
            wrong += key.bits != c.keys[chosen[i] * chunk * Cache::kWidth + h * Cache::kDim].bits;
        }
    }
    finish("ChunkMeans, ScoreChunks, PlaceChunks and GatherChunks", wrong, 0);
}

void sums() {
    const int64_t n = 1000;
    Array<float> out(random_floats(n, 10)), parts(random_floats(3 * n, 11));
    std::vector<double> want(n);
    for (int64_t i = 0; i < n; ++i) want[i] = double(parts.host[i]) + out.host[i] + parts.host[2 * n + i];
    launch<SumParts>({div_up(n, SumParts::kThreads)}, {out.device, parts.device, n, n, 3, 1});
    finish("SumParts", largest_difference(out.read(), want), 1e-6);
}

void mapped() {
    const size_t bytes = 50000;
    auto* from = static_cast<char*>(pinned(bytes));
    for (size_t i = 0; i < bytes; ++i) from[i] = char(i * 7);
    Array<char> to(bytes);
    const auto args = CopyBytes::args(to.device, from, bytes);
    launch<CopyBytes>(CopyBytes::grid(args), args);
    finish("CopyBytes from mapped host memory", std::memcmp(to.read().data(), from, bytes) != 0, 0);
}

void idle() {
    for (const cudaStream_t s : {other, stream}) cuda(cudaStreamSynchronize(s), "cudaStreamSynchronize");
}

/// Median time of `work` in microseconds, measured by events.
double microseconds(const std::function<void()>& work, int repeats = 15) {
    cudaEvent_t begin, end;
    cuda(cudaEventCreate(&begin), "cudaEventCreate");
    cuda(cudaEventCreate(&end), "cudaEventCreate");
    std::vector<float> times;
    for (int i = 0; i < repeats; ++i) {
        idle();
        cuda(cudaEventRecord(begin, stream), "cudaEventRecord");
        work();
        cuda(cudaEventRecord(end, stream), "cudaEventRecord");
        idle();
        float ms = 0;
        cuda(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
        times.push_back(ms * 1000);
    }
    std::sort(times.begin() + 1, times.end());  // the first time is a warm-up
    return times[times.size() / 2];
}
void print(const char* what, double us, double gbytes = 0) {
    std::printf("{\"bench\":\"smoke\",\"what\":\"%s\",\"us\":%.2f", what, us);
    if (gbytes > 0) std::printf(",\"gbps\":%.1f", gbytes / us * 1e6);
    std::printf("}\n");
}

void latencies(int64_t scale) {
    const size_t large = (size_t{256} << 20) / scale, small = 50 << 10;
    char *host = static_cast<char*>(pinned(large)), *back = static_cast<char*>(pinned(large));
    char *device, *target;
    cuda(cudaMalloc(&device, large), "cudaMalloc");
    cuda(cudaMalloc(&target, large), "cudaMalloc");
    const auto copy = [](void* to, const void* from, size_t n, cudaStream_t on) {
        cuda(cudaMemcpyAsync(to, from, n, cudaMemcpyDefault, on), "cudaMemcpyAsync");
    };
    const auto by_kernel = [&](void* to, const void* from, size_t n) {
        const auto args = CopyBytes::args(to, from, n);
        launch<CopyBytes>(CopyBytes::grid(args), args);
    };
    const double giga = double(large) * 1e-9;
    print("pinned copy to the device", microseconds([&] { copy(device, host, large, stream); }, 7), giga);
    print("pinned copy to the host", microseconds([&] { copy(back, device, large, stream); }, 7), giga);
    print("small copy to the device, 50 KB", microseconds([&] { copy(device, host, small, stream); }));
    print("mapped read by a kernel, 50 KB", microseconds([&] { by_kernel(device, host, small); }));
    print("small copy after a large one of another stream", microseconds(
                                                                [&] {
                                                                    copy(target, host, large, other);
                                                                    copy(device, host, small, stream);
                                                                },
                                                                7));
    print("mapped read after a large copy of another stream", microseconds(
                                                                  [&] {
                                                                      copy(target, host, large, other);
                                                                      by_kernel(device, host, small);
                                                                  },
                                                                  7));
    print("copy on the device, 512 KB", microseconds([&] { copy(device, target, 512 << 10, stream); }));
    print("copy on the device by a kernel, 512 KB", microseconds([&] { by_kernel(device, target, 512 << 10); }));
    const int nodes = 200;
    const auto kernels = [&] {
        for (int i = 0; i < nodes; ++i) by_kernel(device, target, 4096);
    };
    print("kernel launch, one of 200 in a row", microseconds(kernels) / nodes);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    kernels();
    cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    cuda(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    print("graph node, one of 200",
          microseconds([&] { cuda(cudaGraphLaunch(executable, stream), "cudaGraphLaunch"); }) / nodes);
    print("host function", microseconds([&] {
              cuda(cudaLaunchHostFunc(
                       stream, [](void*) {}, nullptr),
                   "cudaLaunchHostFunc");
          }));
    cudaEvent_t there, back_again;
    cuda(cudaEventCreateWithFlags(&there, cudaEventDisableTiming), "cudaEventCreate");
    cuda(cudaEventCreateWithFlags(&back_again, cudaEventDisableTiming), "cudaEventCreate");
    print("event to another stream and back", microseconds([&] {
              cuda(cudaEventRecord(there, stream), "cudaEventRecord");
              cuda(cudaStreamWaitEvent(other, there, 0), "cudaStreamWaitEvent");
              cuda(cudaEventRecord(back_again, other), "cudaEventRecord");
              cuda(cudaStreamWaitEvent(stream, back_again, 0), "cudaStreamWaitEvent");
          }));
    const int64_t n = 12288 / scale, k = 4096;
    Array<float> out(64 * n);
    for (const int64_t rows : {1, 17, 64}) {
        const MatmulDecode<f16, 8>::Args all = {
            {out.device, n}, {reinterpret_cast<f16*>(target), k}, {reinterpret_cast<f16*>(device), true}, rows, n, k};
        const auto work = [&] {
            if (rows == 1) return launch<MatmulDecode<f16, 1>>({div_up(n, 16)}, {all.out, all.x, all.w, rows, n, k});
            if (rows == 17) return launch<MatmulDecode<f16, 4>>({div_up(n, 16)}, {all.out, all.x, all.w, rows, n, k});
            launch<MatmulDecode<f16, 8>>({div_up(n, 16)}, all);
        };
        print(("product of 12288 x 4096, rows: " + std::to_string(rows)).c_str(), microseconds(work),
              double(n * k * 2) * 1e-9);
        const int64_t stride = k / 256 * 144;
        const auto in_blocks = [&] {
            const BlockWeights<StoredType::kQ4_K, f16> w = {{reinterpret_cast<const uint8_t*>(device), stride}};
            if (rows == 1)
                return launch<MatmulDecode<f16, 1, decltype(w)>>({div_up(n, 16)}, {all.out, all.x, w, rows, n, k});
            if (rows == 17)
                return launch<MatmulDecode<f16, 4, decltype(w)>>({div_up(n, 16)}, {all.out, all.x, w, rows, n, k});
            launch<MatmulDecode<f16, 8, decltype(w)>>({div_up(n, 16)}, {all.out, all.x, w, rows, n, k});
        };
        print(("product of 12288 x 4096 in blocks of Q4_K, rows: " + std::to_string(rows)).c_str(),
              microseconds(in_blocks), double(n * stride) * 1e-9);
    }
    for (const int64_t rows : {1, 17, 64}) {
        Cache c(32768 / scale, rows);
        Decode decode(c);
        print(("attention over 32768 tokens, 8 heads on 2, rows: " + std::to_string(rows)).c_str(),
              microseconds([&] { decode.enqueue(); }, 7), double(c.cached * Cache::kWidth * 4) * 1e-9);
    }
}

}  // namespace
}  // namespace trireme::gpu

int main(int argc, char** argv) {
    using namespace trireme::gpu;
    int cards = 0;
    if (cudaGetDeviceCount(&cards) != cudaSuccess || cards == 0) {
        std::printf("gpu_smoke: no GPU\n");
        return 69;
    }
    cuda(cudaSetDevice(0), "cudaSetDevice");
    cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    cuda(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), "cudaStreamCreate");
    fault = static_cast<trireme::DeviceFault*>(pinned(4096));
    rowwise();
    fused();
    mailbox();
    matmul<1>(1);
    matmul<4>(17);
    matmul<8>(64);
    matmul_blocks<trireme::StoredType::kQ8_0>(q8_0);
    matmul_blocks<trireme::StoredType::kQ4_K>(q4_k);
    attention(1);
    attention(17);
    prefill();
    sampling();
    retrieval();
    sums();
    mapped();
    if (failures == 0) std::printf("every kernel agrees with its double loop\n");
    latencies(argc > 1 ? std::max(1, std::atoi(argv[1])) : 1);
    return failures != 0;
}
