#include "launch/run/weight_type.h"

#include <map>

#include "kernels/kernels.h"

namespace trireme {
namespace {

// The type of most elements.
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

WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked, std::optional<DType> activations,
                              std::string_view backend) {
    const StoredType stored = main_type(source);
    const std::string checkpoint = fmt::format("the checkpoint is {}", name_of(stored));
    if (asked) return {*asked, fmt::format("--dtype {}, {}", name_of(*asked), checkpoint)};
    const bool bf16 = multiplies_bf16_faster(backend);
    if (is_quantised(stored)) {
        if (!multiplies_blocks(backend)) return {DType::kF16, checkpoint + "; a GPU requires plain weights"};
        const DType as = activations.value_or(bf16 ? DType::kBF16 : DType::kF32);
        return {WeightFormat(source, as),
                fmt::format("{}; products in {}{}", checkpoint, name_of(as), activations ? " (--activations)" : "")};
    }
    const DType own = source.natural_dtype();
    if (own != DType::kF16 || !bf16) return {own, checkpoint};
    return {own, checkpoint + "; --dtype bf16 would be faster here, and less precise"};
}

}  // namespace trireme
