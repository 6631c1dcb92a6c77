// The header of a safetensors file; then a slice of every tensor of a supported type.

#include <algorithm>
#include <vector>

#include "model/files/safetensors.h"
#include "model/files/slice_reader.h"
#include "tests/fuzz/fuzz.h"

using namespace trireme;

namespace {

void read_some(const ByteSource& source, const std::string& name, const SafetensorsEntry& e) {
    const bool plain = e.dtype == "F32" || e.dtype == "F16" || e.dtype == "BF16";
    if (!plain || e.dims.empty() || e.dims.size() > 2 || e.bytes == 0) return;
    const StoredType type = e.dtype == "F32"   ? StoredType::kF32
                            : e.dtype == "F16" ? StoredType::kF16
                                               : StoredType::kBF16;
    const bool vector = e.dims.size() == 1;
    const auto rows = static_cast<int64_t>(vector ? 1 : e.dims[0]);
    const auto cols = static_cast<int64_t>(e.dims.back());
    const StoredMatrix matrix{&source, e.offset, type, rows, cols};
    const int64_t n = std::min<int64_t>(rows, 4), m = std::min<int64_t>(cols, 64);
    std::vector<f16> out(static_cast<size_t>(n * m));
    if (vector) {
        read_slice(matrix, name, cols - m, 0, HostTensor(out.data(), DType::kF16, Shape{m}));
    } else {
        read_slice(matrix, name, rows - n, cols - m, HostTensor(out.data(), DType::kF16, Shape{n, m}));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    return fuzz::run([&] {
        const auto source = memory_source("fuzz.safetensors", fuzz::bytes_of(data, size));
        const SafetensorsHeader header = read_safetensors_header(*source);
        uint64_t bytes = 0;
        for (const auto& [name, entry] : header) {
            fuzz::expect(entry.offset <= size && entry.bytes <= size - entry.offset, "a tensor outside the file");
            bytes += entry.bytes;
        }
        fuzz::expect(bytes <= size, "tensors overlap");
        for (const auto& [name, entry] : header) read_some(*source, name, entry);
    });
}
