#pragma once
/// In which type the weights are held in memory, and why.

#include <optional>
#include <string>

#include "model/files/weight_source.h"

namespace trireme {

struct WeightType {
    DType type;
    std::string reason;  // "the checkpoint's type", "checkpoint is Q4_1", ...
};

/// `asked`: what --dtype said; nothing: the checkpoint's type, or f16 for quantised ones. (bf16 for quantised ones was
/// tried on a CPU with bf16 instructions: our kernels do not use these, and the prefill gained 2 % for eight times the
/// rounding error.)
WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked);

}  // namespace trireme
