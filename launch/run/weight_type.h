#pragma once
/// In which type the weights are held in memory, and why.

#include <optional>
#include <string>
#include <string_view>

#include "model/files/weight_source.h"

namespace trireme {

struct WeightType {
    DType type;
    std::string reason;  // "the checkpoint's type", "checkpoint is Q4_1", ...
};

/// `asked`: what --dtype said; nothing: the checkpoint's type, and for quantised ones the faster one of 16 bits on this
/// backend: bf16 where the CPU has dot products of it, f16 elsewhere (docs/ledger.md, CPU speed).
WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked, std::string_view backend);

}  // namespace trireme
