#pragma once
/// validate(): whether sampling parameters have legal values.

#include "kernels/sampling.h"

namespace trireme {

/// Errors: Exit::kConfig naming the option, its value and the legal range.
void validate(const SamplingParams& params);

}  // namespace trireme
