#pragma once
/// The legal values of the sampling parameters.

#include "kernels/sampling.h"

namespace trireme {

/// Errors: Exit::kConfig naming the option, its value and the legal range.
void validate(const SamplingParams& params);

}  // namespace trireme
