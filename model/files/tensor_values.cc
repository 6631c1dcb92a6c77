#include "model/files/tensor_values.h"

#include <algorithm>
#include <vector>

#include "model/files/convert.h"
#include "model/files/dequantise.h"
#include "model/files/shown.h"
#include "runtime/error.h"

namespace trireme {

void check_finite(const ValuesOf& whose, DType type, const void* values, int64_t n, int64_t index) {
    const int64_t bad = first_nonfinite(type, values, n);
    require(bad < 0, Exit::kData, "{}: tensor '{}' has a NaN or an infinity at element {}; the file is damaged",
            whose.file, shown(whose.tensor), index + std::max<int64_t>(bad, 0));
}

void check_finite_blocks(const ValuesOf& whose, StoredType type, const std::byte* blocks, int64_t n, int64_t index) {
    if (finite_scales(type, blocks, n)) return;
    std::vector<float> values(static_cast<size_t>(n));
    dequantise(type, blocks, n, values.data());
    check_finite(whose, DType::kF32, values.data(), n, index);
}

void convert_finite(const ValuesOf& whose, DType from, const void* in, DType to, void* out, int64_t n, int64_t index) {
    convert(from, in, to, out, n);
    if (to != DType::kF16 || from == DType::kF16) return;
    const int64_t bad = first_nonfinite(DType::kF16, out, n);
    require(bad < 0, Exit::kConfig,
            "{}: tensor '{}' has a value beyond the range of f16 at element {}; hold the weights in bf16 or f32",
            whose.file, shown(whose.tensor), index + std::max<int64_t>(bad, 0));
}

}  // namespace trireme
