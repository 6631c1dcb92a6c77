#pragma once
/// One line about answers that ended before they began.

#include <span>

#include "decode/continuation.h"
#include "launch/flags/options.h"

namespace trireme {

/// An answer whose first token ends the text, of a model whose files have a chat template: the prompt was probably not
/// written as that template would. Says so once per run. Rank 0 alone.
void warn_of_empty_answer(const Options& options, const Continuation& answer);

}  // namespace trireme
