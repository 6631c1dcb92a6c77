#pragma once
/// Type of a model's weights in memory, and the reason for it.

#include <optional>
#include <string>
#include <string_view>

#include "model/weight_format.h"

namespace trireme {

struct WeightType {
    WeightFormat format;
    std::string name;    // for log and report: "bf16", "Q4_1 blocks (bf16 products)"
    std::string reason;  // "the checkpoint is Q4_1"

    DType type() const { return format.dtype(); }
};

/// Chooses the format. `asked` is that of --dtype; not set: the checkpoint's own type. Quantised weights then remain in
/// their blocks; `activations` (--activations) is that of their products; not set: the fastest (docs/results/ledger.md,
/// CPU speed). Errors: Exit::kUsage for activations that the backend has no products of.
WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked,
                              std::optional<ActivationType> activations, std::string_view backend);
/// Chooses the format for a plan of the model at `path`: f16 if it has no weights but a config.
WeightType planned_weight_type(const std::string& path, std::optional<DType> asked,
                               std::optional<ActivationType> activations, std::string_view backend);

}  // namespace trireme
