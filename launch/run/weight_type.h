#pragma once
/// Type of a model's weights in memory, and the reason for it.

#include <optional>
#include <string>
#include <string_view>

#include "model/weight_format.h"

namespace trireme {

struct WeightType {
    WeightFormat format;
    std::string reason;  // for log and report: "the checkpoint is Q4_1; bf16 is the faster type here"

    DType type() const { return format.dtype(); }
    /// "bf16", or "blocks".
    std::string_view name() const { return format.has_blocks() ? "blocks" : name_of(type()); }
};

/// Chooses the format. `asked` is that of --dtype; not set: the checkpoint's own type. Quantised weights then remain in
/// their blocks on a CPU; `activations` (--activations) is the type of their products: not set, bf16 if the CPU has
/// bf16 dot products, else f32 (docs/results/ledger.md, CPU speed). On a GPU they are f16.
WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked, std::optional<DType> activations,
                              std::string_view backend);

}  // namespace trireme
