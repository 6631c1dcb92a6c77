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

/// `asked`: what --dtype said; nothing: the checkpoint's type, or for quantised ones f16, or bf16 on a CPU that
/// multiplies bf16 (`bf16_dot_products`), where prefill gains from it and decode loses nothing.
WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked, bool bf16_dot_products);

/// Whether this CPU has avx512_bf16.
bool cpu_has_bf16_dot_products();

}  // namespace trireme
