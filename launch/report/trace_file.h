#pragma once
/// The trace of a run as a file.

#include "launch/flags/options.h"
#include "launch/run/crew.h"

namespace trireme {

/// The spans of all ranks in one file, if --trace asks for one. A control call.
void write_trace(const Options& options, const Crew& crew);

}  // namespace trireme
