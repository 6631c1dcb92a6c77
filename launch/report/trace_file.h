#pragma once
/// Trace file of a run.

#include "launch/flags/options.h"
#include "launch/run/rank_group.h"

namespace trireme {

/// Writes the spans of all ranks to the file that --trace names; does nothing without it. A control call.
void write_trace(const Options& options, const RankGroup& rank_group);

}  // namespace trireme
