#pragma once
/// Harness of the kernel tests: operands with canaries, a device to run on, every Highway target of the machine.

#include <atomic>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/kernels.h"
#include "kernels/key_order.h"
#include "runtime/device.h"
#include "tests/support/near.h"
#include "tests/support/reference.h"
#include "tests/support/sanitized.h"

namespace trireme::test {

using reference::Rows;

// Functions that each backend defines: cpu_backend.cc, simt_backend.cc, cuda_backend.cc. Two backends share
// gpu_backend.cc, and two share host_memory.cc.

/// A device with the backend's kernels.
std::unique_ptr<Device> backend_device(int threads);
/// Device::backend() of backend_device().
std::string_view backend_name();
/// Memory that host and kernels both see.
void* backend_allocate(size_t bytes);
void backend_free(void* data, size_t bytes) noexcept;
/// Runs the body once for every instruction set that this machine has and the kernels are compiled for.
void on_every_target(const std::function<void()>& body);
/// The thread counts of a CPU stream to test.
std::vector<int> thread_counts();
/// The row counts of a decode forward to test. A sanitizer checks accesses and not bits, and a few counts suffice: one,
/// few, odd, all.
inline std::vector<int64_t> row_counts() {
    if (kSanitized) return {1, 2, 7, 64};
    std::vector<int64_t> all(kMaxRows);
    std::iota(all.begin(), all.end(), 1);
    return all;
}
/// True if the GPU's kernels run on the host, a thousand times slower than on a GPU.
bool emulated();
/// The type that a product rounds its input to, with weights of this type.
DType multiplied_in(DType weights);
/// The type that prefill attention rounds queries and probabilities to, with keys and values of these types.
DType attended_in(DType keys, DType values);
/// Like attended_in(), but for decode attention.
DType decode_attends_in(DType keys, DType values);

template <class T>
struct BackendAllocator {
    using value_type = T;
    T* allocate(size_t n) { return static_cast<T*>(backend_allocate(n * sizeof(T))); }
    void deallocate(T* data, size_t n) noexcept { backend_free(data, n * sizeof(T)); }
    bool operator==(const BackendAllocator&) const = default;
};
template <class T>
using BackendVector = std::vector<T, BackendAllocator<T>>;

/// Seeded numbers: normal, with variance 1.
class Normal {
  public:
    explicit Normal(uint32_t seed) : engine_(seed) {}
    /// Box-Muller over mt19937: the same numbers with every standard library.
    double operator()() {
        const double u = (static_cast<double>(engine_()) + 1) / 4294967297.0;
        const double v = static_cast<double>(engine_()) / 4294967296.0;
        return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
    }
    int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }

  private:
    std::mt19937 engine_;
};

/// A matrix of any type, with `gap` elements between rows, and canaries in the gaps and around it.
class Operand {
  public:
    Operand(DType type, int64_t rows, int64_t cols, int64_t gap = 0)
        : type_(type), rows_(rows), cols_(cols), stride_(cols + gap), bytes_(size(rows * stride_ + 2 * kGuard)) {
        for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = canary(i);
    }
    /// One column: the shape of index vectors.
    static Operand ids(const std::vector<int32_t>& values) {
        Operand o(DType::kI32, static_cast<int64_t>(values.size()), 1);
        for (int64_t r = 0; r < o.rows_; ++r) o.at<int32_t>(r, 0) = values[static_cast<size_t>(r)];
        return o;
    }

    Tensor tensor() { return Tensor(data(0), type_, Shape{rows_, cols_}, stride_); }
    Tensor vector() { return Tensor(data(0), type_, Shape{rows_ * cols_}); }
    template <class T>
    T& at(int64_t r, int64_t c) {
        return *reinterpret_cast<T*>(data(r * stride_ + c));
    }
    std::span<const float> row(int64_t r) { return {&at<float>(r, 0), static_cast<size_t>(cols_)}; }
    int64_t rows() const { return rows_; }
    int64_t cols() const { return cols_; }

    void set(int64_t r, int64_t c, double x) {
        switch (type_) {
            case DType::kF16:
                at<f16>(r, c) = f16(static_cast<float>(x));
                break;
            case DType::kBF16:
                at<bf16>(r, c) = bf16(static_cast<float>(x));
                break;
            default:
                at<float>(r, c) = static_cast<float>(x);
                break;
        }
    }
    double get(int64_t r, int64_t c) {
        switch (type_) {
            case DType::kF16:
                return static_cast<double>(static_cast<float>(at<f16>(r, c)));
            case DType::kBF16:
                return static_cast<double>(static_cast<float>(at<bf16>(r, c)));
            default:
                return static_cast<double>(at<float>(r, c));
        }
    }
    Operand& randomize(uint32_t seed, double scale = 1) {
        Normal normal(seed);
        for (int64_t r = 0; r < rows_; ++r)
            for (int64_t c = 0; c < cols_; ++c) set(r, c, scale * normal());
        return *this;
    }
    Rows values() {
        Rows v(rows_, cols_);
        for (int64_t r = 0; r < rows_; ++r)
            for (int64_t c = 0; c < cols_; ++c) v(r, c) = get(r, c);
        return v;
    }
    /// The elements without gaps, row by row.
    std::vector<float> floats() {
        std::vector<float> v;
        for (int64_t r = 0; r < rows_; ++r) v.insert(v.end(), row(r).begin(), row(r).end());
        return v;
    }
    /// True while nothing but the elements has been written.
    bool intact() const {
        const size_t e = size_of(type_);
        for (size_t i = 0; i < bytes_.size(); ++i) {
            const int64_t at = static_cast<int64_t>(i / e) - kGuard;
            const bool inside = at >= 0 && at < rows_ * stride_ && at % stride_ < cols_;
            if (!inside && bytes_[i] != canary(i)) return false;
        }
        return true;
    }

  private:
    static constexpr int64_t kGuard = 64;
    // NaN in every float type, so that a read of it shows in results. Each operand has its own NaN, so that a copy from
    // the memory after one operand to that after another is noticed.
    uint8_t canary(size_t byte) const { return byte % 2 ? 0xff : mark_; }
    static uint8_t next_mark() {
        static std::atomic<unsigned> count{0};
        return static_cast<uint8_t>(0xc0 | (count++ & 0x3f));
    }
    size_t size(int64_t elements) const { return static_cast<size_t>(elements) * size_of(type_); }
    uint8_t* data(int64_t element) { return bytes_.data() + size(element + kGuard); }

    DType type_;
    int64_t rows_, cols_, stride_;
    uint8_t mark_ = next_mark();
    BackendVector<uint8_t> bytes_;
};

/// A device, a stream of `threads` threads and its kernels.
struct Machine {
    explicit Machine(Phase phase = Phase::kDecode, int threads = 2,
                     const KernelLimits& limits = {.max_rows = kPrefillRows,
                                                   .max_k = 2048,
                                                   .max_n = 4096,
                                                   .heads = 50,
                                                   .head_dim = 160,
                                                   .vocab = 70000})
        : device(backend_device(threads)),
          stream(device->make_stream("test")),
          kernels(make_kernels(*device, *stream, phase, limits)) {}
    ~Machine() {
        try {
            stream->synchronize();  // the operands must outlive what is queued on them
        } catch (const Error&) {    // the test has already checked it
        }
    }
    Kernels& operator*() { return *kernels; }
    Kernels* operator->() { return kernels.get(); }

    std::unique_ptr<Device> device;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Kernels> kernels;
};

/// Success if `work` fails as a bug of the caller (Exit::kInternal) with `words` in its message.
template <class Work>
testing::AssertionResult refused(const Work& work, const std::string& words) {
    try {
        work();
    } catch (const Error& e) {
        if (e.code() == Exit::kInternal && std::string(e.what()).find(words) != std::string::npos) {
            return testing::AssertionSuccess();
        }
        return testing::AssertionFailure() << "said '" << e.what() << "', expected '" << words << "'";
    }
    return testing::AssertionFailure() << "not refused: " << words;
}
inline testing::AssertionResult refused(Machine& m, const std::string& words) {
    return refused([&m] { m.stream->synchronize(); }, words);
}

inline testing::AssertionResult near(Operand& got, const Rows& want, double tol) {
    if (!got.intact()) return testing::AssertionFailure() << "wrote outside its elements";
    const std::vector<float> g = got.floats();
    return near<float, double>(g, want.at, tol);
}

/// The elements of a matrix, rounded to a type.
inline Rows stored(Operand& x, DType type) {
    Rows v = x.values();
    if (type == DType::kQ8_0) return reference::quantised(v);
    for (double& e : v.at) e = reference::rounded(e, type);
    return v;
}

/// The largest 2-norm of a row.
inline double row_norm(const Rows& x) {
    double worst = 0;
    for (int64_t r = 0; r < x.rows; ++r) {
        double squares = 0;
        for (int64_t c = 0; c < x.cols; ++c) squares += x(r, c) * x(r, c);
        worst = std::fmax(worst, std::sqrt(squares));
    }
    return worst;
}
inline double largest(const Rows& x) {
    double worst = 0;
    for (const double v : x.at) worst = std::fmax(worst, std::fabs(v));
    return worst;
}

inline constexpr double kEps = 0x1p-23;  // f32's
inline constexpr DType kFloatTypes[] = {DType::kF32, DType::kF16, DType::kBF16};
inline constexpr DType kKvTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0};
/// Elements of a head: `plain`, or a multiple of 32 if one of the types needs it.
inline int64_t head_dim_for(int64_t plain, DType k, DType v) {
    return k == DType::kQ8_0 || v == DType::kQ8_0 ? (plain + 31) / 32 * 32 : plain;
}

}  // namespace trireme::test
