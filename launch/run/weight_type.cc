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

WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked) {
    const StoredType stored = main_type(source);
    const std::string checkpoint = fmt::format("the checkpoint is {}", name_of(stored));
    if (asked) return {*asked, fmt::format("--dtype {}, {}", name_of(*asked), checkpoint)};
    return {is_quantised(stored) ? DType::kF16 : source.natural_dtype(), checkpoint};
}

}  // namespace trireme
