#include "launch/run/weight_type.h"

#include <algorithm>
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

WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked,
                              std::optional<ActivationType> activations, std::string_view backend) {
    const StoredType stored = main_type(source);
    const std::string checkpoint = fmt::format("the checkpoint is {}", name_of(stored));
    const auto plain = [](DType type, std::string reason) {
        return WeightType{type, std::string(name_of(type)), std::move(reason)};
    };
    if (asked) return plain(*asked, fmt::format("--dtype {}, {}", name_of(*asked), checkpoint));
    const bool interleaved =
        std::ranges::any_of(source.tensors(), [](const TensorInfo& t) { return can_interleave(t.type); });
    const ActivationType as = activations.value_or(fastest_activations(backend, interleaved));
    if (WeightFormat kept(source, as, backend != "cpu"); kept.has_blocks()) {
        require(multiplies(backend, as), Exit::kUsage,
                "--activations {}: there are no such products on {}; give {}, f32 or auto", name_of(as),
                backend == "cpu" ? "this CPU" : "GPUs", backend == "cpu" ? "bf16" : "f16");
        return {std::move(kept), fmt::format("{} blocks ({} products)", name_of(stored), name_of(as)), checkpoint};
    }
    const DType own = source.natural_dtype();
    if (own != DType::kF16 || !multiplies_bf16_faster(backend)) return plain(own, checkpoint);
    return plain(own, checkpoint + "; --dtype bf16 would be faster here, and less precise");
}

WeightType planned_weight_type(const std::string& path, std::optional<DType> asked,
                               std::optional<ActivationType> activations, std::string_view backend) {
    if (asked) return {*asked, std::string(name_of(*asked)), fmt::format("--dtype {}", name_of(*asked))};
    if (has_weights(path)) return choose_weight_type(*open_model(path), {}, activations, backend);
    return {DType::kF16, "f16", "the folder has no weights that have a type"};
}

}  // namespace trireme
