#pragma once
/// Warning about an empty answer, and its likely cause.

#include <span>

#include "decode/continuation.h"
#include "launch/flags/options.h"

namespace trireme {

/// Warns once per run if the first token ended the sequence and the model has a chat template: the prompt was probably
/// not written as the template expects. Call it on rank 0 only.
void warn_of_empty_answer(const Options& options, const Continuation& answer);

}  // namespace trireme
