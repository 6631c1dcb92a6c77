#pragma once
/// Type of a model's weights in memory, and the reason for it.

#include <optional>
#include <string>
#include <string_view>

#include "model/checkpoint/weight_source.h"

namespace trireme {

struct WeightType {
    DType type;
    std::string reason;  // for log and report: "the checkpoint is Q4_1; bf16 is the faster type here"
};

/// Chooses the type. `asked` is that of --dtype; not set: the checkpoint's own type. For quantised weights it is then
/// the faster 16-bit type of this backend: bf16 if the CPU has bf16 dot products, else f16 (docs/results/ledger.md, CPU
/// speed).
WeightType choose_weight_type(const WeightSource& source, std::optional<DType> asked, std::string_view backend);

}  // namespace trireme
