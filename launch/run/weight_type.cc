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
    const auto plain = [](DType type, std::string reason) {
        return WeightType{type, std::string(name_of(type)), std::move(reason)};
    };
    if (asked) return plain(*asked, fmt::format("--dtype {}, {}", name_of(*asked), checkpoint));
    const bool bf16 = multiplies_bf16_faster(backend);
    const DType rounded = rounded_activations(backend);
    const DType as = activations.value_or(backend == "cpu" && !bf16 ? DType::kF32 : rounded);
    if (WeightFormat kept(source, as, backend != "cpu"); kept.has_blocks()) {
        require(as == DType::kF32 || as == rounded, Exit::kUsage,
                "--activations {}: products of quantised weights on {} are with {} or f32; give one of them, or auto",
                name_of(as), backend == "cpu" ? "CPUs" : "GPUs", name_of(rounded));
        return {std::move(kept), fmt::format("{} blocks ({} products)", name_of(stored), name_of(as)), checkpoint};
    }
    const DType own = source.natural_dtype();
    if (own != DType::kF16 || !bf16) return plain(own, checkpoint);
    return plain(own, checkpoint + "; --dtype bf16 would be faster here, and less precise");
}

WeightType planned_weight_type(const std::string& path, std::optional<DType> asked, std::optional<DType> activations,
                               std::string_view backend) {
    if (asked) return {*asked, std::string(name_of(*asked)), fmt::format("--dtype {}", name_of(*asked))};
    if (has_weights(path)) return choose_weight_type(*open_model(path), {}, activations, backend);
    return {DType::kF16, "f16", "the folder has no weights that have a type"};
}

}  // namespace trireme
