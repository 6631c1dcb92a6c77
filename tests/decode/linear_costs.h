#pragma once
/// Costs of a forward that rise linearly with its rows, for tests.

#include "decode/spec_costs.h"
#include "kernels/kernel_limits.h"

namespace trireme::test {

/// A forward takes `first` ms, and each row after the first one `row` ms.
inline LevelCosts linear_costs(double first, double row) {
    return {"full", {{1, first}, {2, first + row}, {kMaxRows, first + row * (kMaxRows - 1)}}};
}

}  // namespace trireme::test
