#include "kernels/attention_cost.h"

#include <initializer_list>

namespace trireme {
namespace {

constexpr double kCudaCores = 11;

/// Elements of the kernel's heads: the next of its sizes.
int64_t padded_head(int64_t head_dim) {
    for (const int64_t size : {64, 96, 128}) {
        if (head_dim <= size) return size;
    }
    return 256;
}

}  // namespace

double attention_products(std::string_view backend, const KvLayout& kv, int64_t heads, int64_t rows) {
    const auto plain = static_cast<double>(2 * rows * heads * kv.head_dim);
    if (backend != "cuda") return plain;
    const bool tensor_cores = kv.k_type == kv.v_type && (kv.k_type == DType::kF16 || kv.k_type == DType::kBF16);
    if (!tensor_cores) return kCudaCores * plain;
    constexpr int64_t kTile = 16;
    const int64_t vectors = rows * ((heads + kv.kv_heads - 1) / kv.kv_heads), parts = kv.k_type == DType::kF16 ? 2 : 3;
    const int64_t padded = (vectors + kTile - 1) / kTile * kTile;
    return static_cast<double>(2 * kv.kv_heads * padded * parts * padded_head(kv.head_dim));
}

}  // namespace trireme
