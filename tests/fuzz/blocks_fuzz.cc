// Damaged blocks of quantised weights: a byte for the type, one for the number of rows, then blocks. They are decoded,
// interleaved and read back, and multiplied with all kinds of activations.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/interleaved.h"
#include "kernels/kernels.h"
#include "model/files/dequantise.h"
#include "runtime/device.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

namespace {

constexpr int64_t kMostRows = 20, kMostColumns = 1024;

struct Blocks {
    StoredType type;
    int64_t rows, cols, stride;
    std::vector<std::byte> bytes;
    std::vector<float> values;
    bool finite;  // as the loader requires
};

/// Products of two rows of x, with the blocks in the layout for `as`.
void multiply(Kernels& kernels, Stream& stream, const Blocks& b, ActivationType as) {
    const bool tiles = interleaves(as) && can_interleave(b.type);
    std::vector<std::byte> data = b.bytes;
    if (tiles) {
        data.assign(static_cast<size_t>(interleaved_rows(b.rows) * b.stride), std::byte{});
        interleave(b.type, b.bytes, b.stride, data.data(), 0);
        std::vector<std::byte> row(static_cast<size_t>(b.stride));
        for (int64_t r = 0; r < b.rows; ++r) {
            const auto blocks = b.cols / layout_of(b.type).elements;
            read_interleaved(b.type, data.data(), b.stride, r, 0, blocks, row.data());
            fuzz::expect(std::memcmp(row.data(), b.bytes.data() + r * b.stride, row.size()) == 0,
                         "interleaved rows are not read back");
        }
    }
    WeightMatrix w(b.cols, 0, as);
    w.add({b.type, data.data(), b.rows, b.stride, tiles});
    std::vector<float> x(static_cast<size_t>(2 * b.cols), 0.25F), out(static_cast<size_t>(2 * b.rows));
    kernels.matmul(Tensor(out.data(), DType::kF32, {2, b.rows}), Tensor(x.data(), DType::kF32, {2, b.cols}), w);
    std::vector<int32_t> ids = {0, static_cast<int32_t>(b.rows - 1)};
    std::vector<float> embedded(static_cast<size_t>(2 * b.cols));
    kernels.embed(Tensor(embedded.data(), DType::kF32, {2, b.cols}), w, Tensor(ids.data(), DType::kI32, Shape{2}));
    stream.synchronize();
    for (int64_t i = 0; i < 2 * b.cols; ++i) {
        const int64_t row = i < b.cols ? 0 : b.rows - 1;
        const float want = b.values[static_cast<size_t>(row * b.cols + i % b.cols)],
                    got = embedded[static_cast<size_t>(i)];
        fuzz::expect(!b.finite || got == want, "an embedding is not the decoded row");
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    constexpr auto kFirst = static_cast<size_t>(StoredType::kQ4_0);
    Blocks b{};
    b.type = static_cast<StoredType>(kFirst + data[0] % (kStoredTypes - kFirst));
    const BlockLayout layout = layout_of(b.type);
    b.rows = 1 + data[1] % kMostRows;
    const auto blocks = static_cast<int64_t>((size - 2) / layout.bytes) / b.rows;
    if (blocks == 0) return 0;
    b.cols = std::min(blocks * layout.elements, kMostColumns);
    b.stride = b.cols / layout.elements * static_cast<int64_t>(layout.bytes);
    const auto* from = reinterpret_cast<const std::byte*>(data + 2);
    b.bytes.assign(from, from + b.rows * b.stride);
    // The reader of packed matrices gives zero points up to 16.
    for (size_t at = 0; b.type == StoredType::kInt4 && at < b.bytes.size(); at += layout.bytes) {
        b.bytes[at] = static_cast<std::byte>(static_cast<uint8_t>(b.bytes[at]) % 17);
    }
    b.values.resize(static_cast<size_t>(b.rows * b.cols));
    dequantise(b.type, b.bytes.data(), b.rows * b.cols, b.values.data());
    b.finite = finite_scales(b.type, b.bytes.data(), b.rows * b.cols);
    fuzz::expect(!b.finite || std::ranges::all_of(b.values, [](float v) { return std::isfinite(v); }),
                 "finite scales give infinite values");

    const std::unique_ptr<Device> device = open_device("cpu", {.threads = 1});
    const std::unique_ptr<Stream> stream = device->make_stream("fuzz");
    const KernelLimits limits = {.max_rows = kPrefillRows,
                                 .max_k = kMostColumns,
                                 .max_n = kMostRows,
                                 .heads = 1,
                                 .head_dim = 8,
                                 .vocab = 0,
                                 .blocks = true};
    const std::unique_ptr<Kernels> decode = make_kernels(*device, *stream, Phase::kDecode, limits);
    const std::unique_ptr<Kernels> prefill = make_kernels(*device, *stream, Phase::kPrefill, limits);
    for (const ActivationType as : kActivationTypes) {
        if (!multiplies("cpu", as)) continue;
        multiply(*decode, *stream, b, as);
        multiply(*prefill, *stream, b, as);
    }
    return 0;
}
