#include "launch/run/weight_type.h"

#include <map>

namespace trireme {
namespace {

// The type that most elements are stored in.
StoredType main_type(const WeightSource& source) {
    std::map<StoredType, int64_t> elements;
    for (const TensorInfo& t : source.tensors()) elements[t.type] += t.shape.elements();
    StoredType best = StoredType::kF32;
    int64_t most = -1;
    for (const auto& [type, n] : elements) {
        if (n > most) {
            most = n;
            best = type;
        }
    }
    return best;
}

}  // namespace

WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked, bool bf16_dot_products) {
    const StoredType stored = main_type(source);
    const std::string checkpoint = fmt::format("the checkpoint is {}", name_of(stored));
    if (asked) return {*asked, fmt::format("--dtype {}, {}", name_of(*asked), checkpoint)};
    if (!is_quantised(stored)) return {source.natural_dtype(), checkpoint};
    if (bf16_dot_products)
        return {DType::kBF16, checkpoint + "; this CPU has bf16 dot products, which prefill gains from"};
    return {DType::kF16, checkpoint};
}

bool cpu_has_bf16_dot_products() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512bf16") != 0;
#else
    return false;
#endif
}

}  // namespace trireme
